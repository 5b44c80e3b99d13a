//! Tenants whose flows relays may code together: `shared_coding` of a controller.

use byway_api::checked_name;
use byway_config_types::{KeyPath, Problem, Source};

/// Tenant whose flows relays may code with those of other such tenants.
#[derive(Clone, Debug)]
pub(crate) struct SharedTenant {
    pub(crate) name: String,
    /// Problem if the controller has no tenant of this name. Only its database shows that.
    pub(crate) unknown: Problem,
}

impl PartialEq for SharedTenant {
    /// True if both are the same tenant, wherever the file names it.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SharedTenant {}

/// Validates the names of the tenants at the path `root` of the file.
pub(super) fn shared_tenants(
    root: &KeyPath,
    typed: &[String],
    source: &Source,
) -> Result<Vec<SharedTenant>, Problem> {
    let mut tenants: Vec<SharedTenant> = Vec::new();
    for (index, name) in typed.iter().enumerate() {
        let path = root.index(index);
        checked_name(name).map_err(|error| source.problem(&path, error))?;
        if tenants.iter().any(|known| known.name == *name) {
            let message = format!("duplicate tenant {name:?}: name each tenant once");
            return Err(source.problem(&path, message));
        }
        let unknown = format!(
            "tenant {name:?} not found: remove the name, create a token of the tenant with `byway token \
             create --role agent --tenant {name}`, then add the name again"
        );
        tenants.push(SharedTenant { name: name.clone(), unknown: source.problem(&path, unknown) });
    }
    Ok(tenants)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(names: &[&str]) -> Result<Vec<SharedTenant>, String> {
        let text = format!("[controller]\nrate = \"1 Mbit/s\"\nshared_coding = {names:?}\n");
        let source = Source::new(Path::new("byway.toml"), text);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let root = KeyPath::of("controller").key("shared_coding");
        shared_tenants(&root, &names, &source).map_err(|problem| problem.to_string())
    }

    #[test]
    fn tenants_are_named_once_each() {
        let names = |tenants: Vec<SharedTenant>| -> Vec<String> {
            tenants.into_iter().map(|tenant| tenant.name).collect()
        };
        assert_eq!(read(&["lab", "office"]).map(names), Ok(vec!["lab".to_owned(), "office".to_owned()]));
        assert_eq!(read(&[]).map(names), Ok(vec![]));
        let error = read(&["lab", "office", "lab"]).expect_err("twice");
        assert_eq!(
            error,
            "byway.toml:3: controller.shared_coding[2]: duplicate tenant \"lab\": name each tenant once"
        );
        assert!(read(&["not a name"]).expect_err("a space").contains("controller.shared_coding[0]"));
    }

    #[test]
    fn an_unknown_tenant_is_reported_with_its_place_and_the_remedy() {
        let tenants = read(&["lab", "office"]).expect("good names");
        let problem = tenants[1].unknown.to_string();
        assert!(
            problem.starts_with("byway.toml:3: controller.shared_coding[1]: tenant \"office\""),
            "{problem}"
        );
        assert!(problem.contains("byway token create --role agent --tenant office"), "{problem}");
    }
}
