//! The fuzzer's program: checks the inputs that libFuzzer makes with the check that `FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static CHECK: LazyLock<fuzzing::Check> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzzing::named(&name).unwrap_or_else(|| {
        let known = fuzzing::CHECKS.map(|(name, _)| name).join(", ");
        eprintln!("FUZZ_TARGET has to be one of {known}, not '{name}'");
        std::process::exit(2)
    })
});

fuzz_target!(|input: &[u8]| CHECK(input));
