//! Refuses a processor that lacks instructions which this build uses: with a message, instead of an
//! illegal instruction.
//!
//! In a program that links this crate (`use adit_baseline as _;`) the check is one of the first
//! initializers: it runs before `main`, before the initializers of DPDK, and before any Rust code.
//! It reads CPUID and XCR0. If an extension is missing, it names it on standard error and ends the
//! process with status 2. `is_x86_feature_detected!` cannot check this: it is constant for
//! extensions that the build assumes.
//!
//! On architectures other than x86-64 it checks nothing.

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use core::ffi::c_char;

    /// Indexes of the words, as in `baseline.c`.
    const WORDS: usize = 5;
    const XCR0: usize = 3;

    // SAFETY: as declared in `baseline.c`.
    unsafe extern "C" {
        fn adit_baseline_missing(words: *const u32, out: *mut c_char, room: usize) -> usize;
        fn adit_baseline_read(words: *mut u32);
    }

    /// Returns how many extensions a machine with these words lacks, and their names.
    fn missing(words: &[u32; WORDS]) -> (usize, String) {
        let mut out = [0_u8; 512];
        // SAFETY: `WORDS` words to read and `out.len()` octets to write.
        let count =
            unsafe { adit_baseline_missing(words.as_ptr(), out.as_mut_ptr().cast(), out.len()) };
        let text: Vec<u8> = out.into_iter().take_while(|octet| *octet != 0).collect();
        (count, String::from_utf8(text).unwrap_or_default())
    }

    const ALL: [u32; WORDS] = [u32::MAX; WORDS];

    #[test]
    fn machine_with_everything_lacks_nothing() {
        assert_eq!(missing(&ALL), (0, String::new()));
    }

    #[test]
    fn machine_that_runs_this_test_is_accepted() {
        let mut words = [0; WORDS];
        // SAFETY: `WORDS` words to write.
        unsafe { adit_baseline_read(words.as_mut_ptr()) };
        assert_eq!(missing(&words), (0, String::new()));
    }

    #[test]
    #[cfg(target_feature = "avx2")]
    fn machine_without_avx2_lacks_that_only() {
        let mut words = ALL;
        words[1] &= !(1 << 5);
        assert_eq!(missing(&words), (1, "AVX2".to_owned()));
    }

    #[test]
    #[cfg(target_feature = "avx2")]
    fn every_extension_that_an_old_processor_lacks_is_named() {
        // Nehalem: SSE4.2 and POPCNT, no AVX.
        let nehalem = [0x0098_2201, 0, 1, 0, 0];
        let (count, names) = missing(&nehalem);
        let told: Vec<&str> = names.split(", ").collect();
        assert_eq!(count, told.len());
        for name in ["FMA", "MOVBE", "AVX", "AVX2", "BMI1", "BMI2", "LZCNT"] {
            assert!(told.contains(&name), "{name} in {names}");
        }
        assert!(!told.contains(&"SSE4.2") && !told.contains(&"POPCNT"), "{names}");
    }

    #[test]
    #[cfg(target_feature = "avx")]
    fn kernel_that_does_not_keep_avx_registers_is_refused() {
        let mut words = ALL;
        words[XCR0] = 0b011;
        let (_, names) = missing(&words);
        assert!(names.starts_with("AVX registers kept by the operating system"), "{names}");
    }
}
