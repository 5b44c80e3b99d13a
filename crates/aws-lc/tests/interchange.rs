//! AWS-LC and the portable provider stand in for each other, byte for byte.

use byway_aws_lc::AwsLc;
use byway_units::FlowId;
use byway_wire::seal::{ForgeryError, Nonce, PortableProvider, Provider, Suite};
use byway_wire::{Counter, SequenceNumber};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::{Index, select};
use proptest::{collection, prop_assert_eq};

fn nonces() -> impl Strategy<Value = Nonce> {
    let source = (any::<u16>(), any::<u64>());
    prop_oneof![
        source.prop_map(|(flow, number)| {
            Nonce::of_source_packet(FlowId::new(flow), SequenceNumber::new(number))
        }),
        any::<u64>().prop_map(|number| Nonce::of_counter(Counter::new(number))),
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(Vec::new()), collection::vec(any::<u8>(), 0..80), collection::vec(any::<u8>(), 0..2_000)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_seals_the_same_and_opens_what_the_other_sealed(
        suite in select(Suite::ALL),
        key in any::<[u8; 32]>(),
        nonce in nonces(),
        associated in bytes(),
        plaintext in bytes(),
    ) {
        let providers = [AwsLc.key(suite, &key), PortableProvider.key(suite, &key)];
        let sealed = providers.each_ref().map(|provider| {
            let mut in_out = plaintext.clone();
            let tag = provider.seal(&nonce, &associated, &mut in_out);
            (in_out, tag)
        });
        prop_assert_eq!(&sealed[0], &sealed[1]);
        for ((mut in_out, tag), opener) in sealed.into_iter().zip(providers.iter().rev()) {
            prop_assert_eq!(opener.open(&nonce, &associated, &mut in_out, &tag), Ok(()));
            prop_assert_eq!(&in_out, &plaintext);
        }
    }

    #[test]
    fn neither_opens_what_was_changed(
        suite in select(Suite::ALL),
        nonce in nonces(),
        associated in bytes(),
        plaintext in bytes(),
        bit in any::<Index>(),
    ) {
        let mut sealed = plaintext;
        let tag = AwsLc.key(suite, &[7; 32]).seal(&nonce, &associated, &mut sealed);
        let mut changed = [associated.as_slice(), &sealed, &tag].concat();
        let bit = bit.index(8 * changed.len());
        changed[bit / 8] ^= 1 << (bit % 8);
        for provider in [&AwsLc as &dyn Provider, &PortableProvider] {
            let (changed_associated, rest) = changed.split_at(associated.len());
            let (ciphertext, tag) = rest.split_last_chunk().expect("there is a tag");
            let key = provider.key(suite, &[7; 32]);
            prop_assert_eq!(key.open(&nonce, changed_associated, &mut ciphertext.to_vec(), tag), Err(ForgeryError));
            let other_key = provider.key(suite, &[8; 32]);
            prop_assert_eq!(other_key.open(&nonce, changed_associated, &mut ciphertext.to_vec(), tag), Err(ForgeryError));
        }
    }
}

#[test]
fn packets_are_sealed_and_opened_without_allocation() {
    for &suite in Suite::ALL {
        for provider in [&AwsLc as &dyn Provider, &PortableProvider] {
            let key = provider.key(suite, &[7; 32]);
            let (nonce, mut packet) = (Nonce::of_counter(Counter::new(1)), [9; 1_200]);
            let counted = allocation_counter::measure(|| {
                let tag = key.seal(&nonce, b"header", &mut packet);
                assert_eq!(key.open(&nonce, b"header", &mut packet, &tag), Ok(()));
                let tag = key.seal(&nonce, &packet, &mut []);
                assert_eq!(key.open(&nonce, &packet, &mut [], &tag), Ok(()));
            });
            assert_eq!(counted.count_total, 0, "{suite:?}");
        }
    }
}
