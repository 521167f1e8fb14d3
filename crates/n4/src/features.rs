//! What this UP function can do, as it tells its peers: only what it does.

use adit_pfcp::ie::UpFunctionFeatures;

/// F-TEID allocation (FTUP), reading of bundled messages (BUNDL), sessions controlled by an SMF set
/// through one association (SSET) or several (MPAS). Spec: TS 29.244 §8.2.25.
pub(crate) fn up_function_features() -> UpFunctionFeatures {
    UpFunctionFeatures::FTUP
        | UpFunctionFeatures::BUNDL
        | UpFunctionFeatures::SSET
        | UpFunctionFeatures::MPAS
}
