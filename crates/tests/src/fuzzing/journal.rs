//! A journal whose device fails, whose process ends, and whose files are damaged, compared with a
//! map.

use adit_store::{Journal, JournalOptions, RecordStore};
use adit_testkit::memory_folder::{FileFault, MemoryFolder};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::input::FuzzInput;
use super::model::{Run, SMALL, random_group, records_of, reopen};

/// Steps of one input, so that none takes long.
const STEPS_MAX: usize = 200;

/// Appends, commits, upkeep, faults, crashes and damage. The journal always holds the state of a
/// group that is not before the durable one, or refuses a damaged folder by naming the damage.
pub(super) fn run(data: &[u8]) {
    let mut input = FuzzInput::new(data);
    let sectors = 8 + input.below(24) as u32;
    let mut run = Run::new(sectors * 512);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.below(9) {
            0 => {
                let mut random = StdRng::seed_from_u64(u64::from(input.u16()));
                run.append(&random_group(&mut random, SMALL));
            }
            1 => drop(run.journal().commit()),
            2 | 3 => drop(run.journal().maintain()),
            4 => {
                let fault = match input.below(4) {
                    0 => FileFault::Io,
                    1 => FileFault::NoSpace,
                    2 => FileFault::ReadOnly,
                    _ => FileFault::Short,
                };
                let first = run.folder.calls() + input.below(16) as u64;
                run.folder.fail(first, 1 + input.below(8) as u64, fault);
            }
            5 => run.folder.heal(),
            6 => {
                let mut random = StdRng::seed_from_u64(u64::from(input.u16()));
                let image = run.folder.crash(|| random.random());
                run.restart(image);
            }
            7 => {
                let image = run.folder.image();
                run.restart(image);
            }
            _ => damage(&run, &mut input),
        }
    }
    run.folder.heal();
    // Upkeep finds that there is room again.
    run.maintain_all();
    run.commit();
    let records = records_of(run.journal()).expect("a whole journal");
    assert_eq!(&records, run.records());
    let reopened = reopen(run.folder.crash(|| false), &run.options).expect("a whole journal");
    run.check(&reopened, run.appended, "end");
}

/// Changes some octets of a copy of the files.
fn damage(run: &Run, input: &mut FuzzInput<'_>) {
    let mut image = run.folder.image();
    let names: Vec<String> = image.files().map(|(name, _)| name.to_owned()).collect();
    for _ in 0..=input.below(3) {
        let octets = image.octets_mut(&names[input.below(names.len())]).expect("a file");
        let (at, flip) = (usize::from(input.u16()), input.u8());
        if let Some(octet) = octets.get_mut(at) {
            *octet ^= flip;
        }
    }
    match reopen(image.clone(), &run.options) {
        Ok(reopened) => run.check(&reopened, 0, "damage"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let options = JournalOptions { accept_loss: true, ..run.options };
    let folder = MemoryFolder::from_image(image);
    // Octets of a header may make it one of another journal or version, which no setting accepts.
    if let Ok((mut journal, _)) = Journal::open(folder.files(), &options) {
        records_of(&mut journal).expect("a whole journal");
        drop(journal);
        reopen(folder.image(), &run.options).expect("a whole journal");
    }
}
