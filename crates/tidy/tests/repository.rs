//! The repository keeps its habits: one test per rule.

#![allow(clippy::disallowed_methods, reason = "the checks read the repository and ask Cargo about it")]

use byway_tidy::pure::PURE_CRATES;
use byway_tidy::ratchet::{self, Exception};
use byway_tidy::{
    Finding, Repository, crate_graph, crate_manifests, doc_openings, file_length, function_length,
    fuzzing_build, impl_files, import_circles, links, lint_reasons, lint_table_reasons, module_tours, names,
    no_std, promises, prose_width, root_entries, sentence_length, struct_fields, titles, type_names,
    unsafe_code,
};

fn repository() -> Repository {
    Repository::read().expect("the repository is readable")
}

fn exceptions(repository: &Repository) -> Vec<Exception> {
    let list = repository.root.join(ratchet::PATH);
    let list = std::fs::read_to_string(list).expect("the list of exceptions is readable");
    ratchet::parse(&list).unwrap_or_else(|findings| panic!("\n{}\n", report(&findings)))
}

fn report(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_none(findings: &[Finding]) {
    assert!(findings.is_empty(), "\n{}\n", report(findings));
}

#[test]
fn files_are_short() {
    let repository = repository();
    assert_none(&file_length::findings(&repository.files, &exceptions(&repository)));
}

#[test]
fn functions_are_short() {
    let repository = repository();
    assert_none(&function_length::findings(&repository.files, &exceptions(&repository)));
}

#[test]
fn every_document_begins_with_its_only_title() {
    assert_none(&titles::findings(&repository().files));
}

#[test]
fn links_in_documents_lead_somewhere() {
    let repository = repository();
    assert_none(&links::findings(&repository.files, &repository.paths));
}

#[test]
fn pure_crates_depend_on_nothing_impure() {
    let root = repository().root;
    let of_crate = |pure| match crate_graph::tree(&root, pure) {
        Ok(tree) => crate_graph::findings(pure, &tree),
        Err(finding) => vec![finding],
    };
    assert_none(&PURE_CRATES.iter().flat_map(of_crate).collect::<Vec<_>>());
}

#[test]
fn pure_crates_do_without_the_standard_library() {
    assert_none(&no_std::findings(&repository().files, PURE_CRATES));
}

#[test]
fn unsafe_code_stays_in_its_places() {
    assert_none(&unsafe_code::findings(&repository().files));
}

#[test]
fn no_product_compiles_in_a_fuzzing_build() {
    assert_none(&fuzzing_build::findings(&repository().files));
}

#[test]
fn the_root_holds_nothing_stray() {
    let entries = root_entries::entries(&repository().root).expect("the root is readable");
    assert_none(&root_entries::findings(&entries));
}

#[test]
fn silenced_lints_in_sources_have_a_reason() {
    assert_none(&lint_reasons::findings(&repository().files));
}

#[test]
fn silenced_lints_in_manifests_have_a_reason() {
    assert_none(&lint_table_reasons::findings(&repository().files));
}

#[test]
fn every_crate_is_described_and_in_the_workspace() {
    assert_none(&crate_manifests::findings(&repository().files));
}

#[test]
fn every_promise_names_tests_that_are_there() {
    assert_none(&promises::findings(&repository().files));
}

#[test]
fn doc_comments_begin_with_their_subject() {
    assert_none(&doc_openings::findings(&repository().files));
}

#[test]
fn sentences_are_short() {
    assert_none(&sentence_length::findings(&repository().files));
}

#[test]
fn prose_is_wrapped() {
    assert_none(&prose_width::findings(&repository().files));
}

#[test]
fn names_are_the_fields() {
    assert_none(&names::findings(&repository().files));
}

#[test]
fn few_types_of_a_crate_share_a_name() {
    assert_none(&type_names::findings(&repository().files));
}

#[test]
fn roots_name_every_module() {
    assert_none(&module_tours::findings(&repository().files));
}

#[test]
fn structures_have_few_fields() {
    let repository = repository();
    assert_none(&struct_fields::findings(&repository.files, &exceptions(&repository)));
}

#[test]
fn methods_of_a_type_are_in_few_files() {
    let repository = repository();
    assert_none(&impl_files::findings(&repository.files, &exceptions(&repository)));
}

#[test]
fn circles_of_imports_do_not_grow() {
    let repository = repository();
    assert_none(&import_circles::findings(&repository.files, &exceptions(&repository)));
}
