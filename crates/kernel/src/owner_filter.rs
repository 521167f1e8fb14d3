//! A BPF program by which the kernel passes each datagram to the socket of its session's owner.
//!
//! The TEID of a G-PDU contains the position of its session, which determines the owner
//! ([`Owners`]). The program computes the owner as [`Owners`] does. A wrong result costs only time:
//! workers hand over packets that arrive elsewhere.
//!
//! [`Owners`]: adit_types::Owners

use adit_types::{OWNER_GROUP_SHIFT, OWNER_GROUPS, OWNER_STRIDE};

/// Offset of the TEID in a GTP-U message. Spec: TS 29.281 §5.1.
const TEID_OFFSET: u32 = 4;

/// The octets of an instruction: code, jumps, operand.
type Instruction = libc::sock_filter;

const fn instruction(code: u32, k: u32) -> Instruction {
    #[allow(clippy::cast_possible_truncation, reason = "codes have nine bits")]
    let code = code as u16;
    Instruction { code, jt: 0, jf: 0, k }
}

/// Returns the program for `workers` sockets, which are in the order of their workers. A datagram
/// without a TEID goes to the first socket.
pub(crate) const fn program(workers: u32) -> [Instruction; 7] {
    const ALU: u32 = libc::BPF_ALU | libc::BPF_K;
    [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, TEID_OFFSET),
        instruction(ALU | libc::BPF_RSH, OWNER_GROUP_SHIFT),
        instruction(ALU | libc::BPF_MUL, OWNER_STRIDE),
        instruction(ALU | libc::BPF_AND, OWNER_GROUPS - 1),
        instruction(ALU | libc::BPF_MUL, workers),
        instruction(ALU | libc::BPF_RSH, OWNER_GROUPS.trailing_zeros()),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ]
}

const _: () = assert!(OWNER_GROUPS.is_power_of_two());
