//! The workload of a baseband application as a graph of threads: in each TTI an I/O thread
//! activates an uplink thread per cell; the scheduler thread runs once all of them have ended, or
//! at the end of the TTI; then a downlink thread per cell runs. The threads execute busy loops of a
//! given length instead of signal processing.
//!
//! The response time of a TTI is from the activation of the first uplink thread to the end of the
//! last downlink thread. It should be at most a TTI.

mod background;
mod busy_work;
mod clock;
mod execution_time;
mod gathering;
mod idle_states;
mod percentile;
mod pipeline;
mod response;
mod sched_attributes;
mod scheduling;
mod timeline;
mod workload;

pub use self::background::{BackgroundKind, BackgroundLoad};
pub use self::busy_work::Calibration;
pub use self::execution_time::TimeDistribution;
pub use self::idle_states::LatencyRequest;
pub use self::pipeline::{PipelineProgress, run};
pub use self::response::{CdfPoint, ResponseTimes};
pub use self::scheduling::SchedulingPolicy;
pub use self::timeline::{StageDurations, TtiOutcome, WorkloadOutcome};
pub use self::workload::{StageTimes, Workload, time_ns};
