//! Reports the system calls of a piece of code, by Syscall User Dispatch (Linux 5.11, x86-64):
//! while a byte is set, the kernel answers system calls of the thread with SIGSYS.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use adit_tests::process::skip_on_this_machine;

const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
const DISPATCH_ON: libc::c_ulong = 1;
const DISPATCH_OFF: libc::c_ulong = 0;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;
/// In `siginfo_t` for SIGSYS: number of the system call.
const SI_SYSCALL_AT: usize = 24;

const NONE: i32 = -1;

thread_local! {
    /// The octet that the kernel reads at each system call of this thread.
    static SELECTOR: AtomicU8 = const { AtomicU8::new(ALLOW) };
    static SEEN: AtomicI32 = const { AtomicI32::new(NONE) };
}

/// Records the system call and lets all later ones pass, since this function's own return is one.
extern "C" fn on_sigsys(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    SELECTOR.with(|selector| selector.store(ALLOW, Ordering::Relaxed));
    // SAFETY: the kernel passes a whole `siginfo_t`.
    let place = unsafe { info.cast::<u8>().add(SI_SYSCALL_AT) };
    // SAFETY: an aligned `int` within it, written for SIGSYS.
    let number = unsafe { place.cast::<i32>().read() };
    SEEN.with(|seen| seen.store(number, Ordering::Relaxed));
}

/// Runs `work`. Returns its result and the number of its first system call, which the kernel does
/// not carry out. If the kernel cannot report them, prints so once and finds none.
pub(crate) fn first_syscall<T>(work: impl FnOnce() -> T) -> (T, Option<i32>) {
    let selector = SELECTOR.with(core::ptr::from_ref);
    SEEN.with(|seen| seen.store(NONE, Ordering::Relaxed));
    // SAFETY: zero is a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_sigsys as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler stores into two atomics of its thread.
    let set = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, core::ptr::null_mut()) };
    assert_eq!(set, 0);
    // SAFETY: the selector lives as long as the thread; dispatch is switched off below.
    let on = unsafe {
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, 0_usize, 0_usize, selector)
    };
    if on != 0 {
        skip_on_this_machine(
            "system calls of a step are not watched: the kernel has no Syscall User Dispatch",
        );
        return (work(), None);
    }
    SELECTOR.with(|selector| selector.store(BLOCK, Ordering::Relaxed));
    let result = work();
    SELECTOR.with(|selector| selector.store(ALLOW, Ordering::Relaxed));
    // SAFETY: takes numbers only.
    let off = unsafe {
        libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0_usize, 0_usize, 0_usize)
    };
    assert_eq!(off, 0);
    let seen = SEEN.with(|seen| seen.load(Ordering::Relaxed));
    (result, (seen != NONE).then_some(seen))
}
