//! The UP Function Features that this node announces.

use adit_pfcp::ie::UpFunctionFeatures;

use crate::config::NodeConfig;

/// Returns the features that this node implements: F-TEID allocation (FTUP), traffic endpoints
/// (PDIU), several of them in a PDI (MTE), framed routes (FRRT), deferred activation of PDRs
/// (DPDRA), receiving bundled messages (BUNDL), sessions controlled by an SMF set through one
/// association (SSET) or several (MPAS), a delay of notifications (DDND), buffering durations
/// (DLBD), suggested numbers of buffered packets (UDBC), data delivery status (DDDS), End Markers
/// (EMPU), packet counts in usage reports (MNOP), the quota validity time (VTIME), quota actions
/// (QUOAC), the last usage of sessions before their association is released (EPFAR), delays of
/// GTP-U paths (GPQM), packet rates (CIOT), and UE address allocation (UEIP) if there are pools.
/// Spec: TS 29.244 §8.2.25.
pub(crate) fn up_function_features(config: &NodeConfig) -> UpFunctionFeatures {
    let mut features = UpFunctionFeatures::FTUP
        | UpFunctionFeatures::DLBD
        | UpFunctionFeatures::PDIU
        | UpFunctionFeatures::FRRT
        | UpFunctionFeatures::DPDRA
        | UpFunctionFeatures::MTE
        | UpFunctionFeatures::BUNDL
        | UpFunctionFeatures::SSET
        | UpFunctionFeatures::MPAS
        | UpFunctionFeatures::DDND
        | UpFunctionFeatures::UDBC
        | UpFunctionFeatures::DDDS
        | UpFunctionFeatures::EMPU
        | UpFunctionFeatures::TREU
        | UpFunctionFeatures::MNOP
        | UpFunctionFeatures::VTIME
        | UpFunctionFeatures::QUOAC
        | UpFunctionFeatures::EPFAR
        | UpFunctionFeatures::QUASF
        | UpFunctionFeatures::NORP
        | UpFunctionFeatures::GPQM
        | UpFunctionFeatures::CIOT;
    features.set(UpFunctionFeatures::TRST, !config.store.provisioning.policies.is_empty());
    // PFD management (PFDM), with several flow descriptions in one PFD (PFDE).
    features |= UpFunctionFeatures::PFDM | UpFunctionFeatures::PFDE;
    let predefined_rules = &config.store.provisioning.predefined_rules;
    features.set(UpFunctionFeatures::ADPDP, !predefined_rules.is_empty());
    features.set(UpFunctionFeatures::UEIP, !config.store.provisioning.ue_pools.is_empty());
    features
}
