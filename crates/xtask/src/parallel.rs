//! Runs independent jobs on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};

/// Runs `job` for all `items`, and returns the results in the order of the items. Starts them in
/// order, as many at a time as there are cores.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from).min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = job(item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(super::map(&items, |item| item * 2), (0..200).step_by(2).collect::<Vec<_>>());
        assert!(super::map(&[] as &[u32], |item| *item).is_empty());
    }
}
