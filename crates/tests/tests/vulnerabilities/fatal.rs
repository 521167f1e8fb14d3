//! Class 7: errors that end the process. Mutations of every message, many times over.

use adit_types::Seid;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::messages;
use crate::smf::*;
use crate::victim::Victim;

/// Changes octets, cuts a message, or joins two.
fn mutate(rng: &mut SmallRng, all: &[(&'static str, Vec<u8>)]) -> Vec<u8> {
    let mut message = all[rng.random_range(0..all.len())].1.clone();
    for _ in 0..rng.random_range(1..8) {
        let at = rng.random_range(0..message.len());
        match rng.random_range(0..6) {
            0 => message[at] = rng.random(),
            1 => message[at] ^= 1 << rng.random_range(0..8),
            2 => message[at] = [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)],
            3 => message.truncate(at.max(1)),
            4 => {
                let other = &all[rng.random_range(0..all.len())].1;
                message.extend_from_slice(&other[..rng.random_range(0..other.len())]);
            }
            _ => {
                let end = rng.random_range(at..message.len());
                let part = message[at..end].to_vec();
                message.splice(at..at, part);
            }
        }
    }
    if rng.random_bool(0.7) && message.len() >= 8 {
        // With a valid length, the mutation reaches the IEs.
        let len = u16::try_from(message.len() - 4).unwrap_or(u16::MAX);
        message[2..4].copy_from_slice(&len.to_be_bytes());
    }
    message
}

#[test]
fn mutated_messages_cost_an_answer_each_and_never_the_node() {
    for seed in 0..4 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut victim = Victim::new();
        let all = messages::all(victim.session);
        for round in 0..5000 {
            let message = mutate(&mut rng, &all);
            let from = smf([10, 10, 11, 66][rng.random_range(0..4)]);
            let sent = victim.bench.ask(from, &message);
            // A datagram holds several messages when mutation joined some.
            assert!(sent.len() <= message.len() / 8, "seed {seed} round {round}");
            assert_eq!(victim.bench.node.pending_len(), 0, "seed {seed} round {round}");
        }
        // A mutation can give a Node ID to another peer; the second round finds them free.
        for (sequence, host) in (0x00dd_0001..).zip([66, 11, 10, 66, 11, 10]) {
            let request = setup(sequence, [192, 0, 2, host].into(), 1);
            assert_eq!(victim.bench.ask(smf(host), &request).len(), 1, "seed {seed}");
        }
        victim.bench.session(smf(10), 0x00dd_0020, &SessionScript::new(1, 1));
        let reserved = victim.bench.node.store().len();
        assert_eq!(reserved, 1, "seed {seed}: sessions of ended associations are gone");
    }
}

#[test]
fn random_octets_are_ignored() {
    let mut rng = SmallRng::seed_from_u64(5);
    let mut victim = Victim::new();
    for _ in 0..5000 {
        let mut octets = vec![0; rng.random_range(0..200)];
        rng.fill(&mut octets[..]);
        victim.refuses(&octets);
    }
    assert!(victim.bench.node.store().session(Seid(0)).is_none());
    victim.assert_sessions_usable();
}
