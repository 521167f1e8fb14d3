#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| adit_tests::fuzzing::run("replication", data));
