//! QoS Enforcement Rules.

use adit_types::{QerId, Qfi};

use crate::body::bodies;
use crate::ie::{
    AveragingWindow, DlFlowLevelMarking, GateStatus, Gbr, Mbr, PacketRate, PacketRateStatus,
    PagingPolicyIndicator, QerControlIndications, QerCorrelationId, QerIndications, Rqi,
};

bodies! {
    /// A QER to create. Spec: TS 29.244 §7.5.2.5.
    group CreateQer = CREATE_QER, rule Qer {
        qer_id: M QER_ID => QerId,
        qer_correlation_id: C QER_CORRELATION_ID => QerCorrelationId,
        gate_status: M GATE_STATUS => GateStatus,
        mbr: C MBR => Mbr,
        gbr: C GBR => Gbr,
        packet_rate: C PACKET_RATE => PacketRate,
        packet_rate_status: C PACKET_RATE_STATUS => PacketRateStatus,
        dl_flow_level_marking: C DL_FLOW_LEVEL_MARKING => DlFlowLevelMarking,
        qfi: C QFI => Qfi,
        rqi: C RQI => Rqi,
        paging_policy_indicator: C PAGING_POLICY_INDICATOR => PagingPolicyIndicator,
        averaging_window: O AVERAGING_WINDOW => AveragingWindow,
        qer_control_indications: C QER_CONTROL_INDICATIONS => QerControlIndications,
        qer_indications: C QER_INDICATIONS => QerIndications,
    }

    /// A QER to change. Spec: TS 29.244 §7.5.4.5.
    group UpdateQer = UPDATE_QER, rule Qer {
        qer_id: M QER_ID => QerId,
        qer_correlation_id: N QER_CORRELATION_ID => QerCorrelationId,
        gate_status: C GATE_STATUS => GateStatus,
        mbr: N MBR => Mbr,
        gbr: N GBR => Gbr,
        packet_rate: N PACKET_RATE => PacketRate,
        dl_flow_level_marking: N DL_FLOW_LEVEL_MARKING => DlFlowLevelMarking,
        qfi: N QFI => Qfi,
        rqi: N RQI => Rqi,
        paging_policy_indicator: N PAGING_POLICY_INDICATOR => PagingPolicyIndicator,
        averaging_window: N AVERAGING_WINDOW => AveragingWindow,
        qer_control_indications: N QER_CONTROL_INDICATIONS => QerControlIndications,
    }

    /// A QER whose packet rates are queried. Spec: TS 29.244 §7.5.4.22.
    group QueryPacketRateStatus = QUERY_PACKET_RATE_STATUS, rule Qer {
        qer_id: M QER_ID => QerId,
    }

    /// A QER to remove. Spec: TS 29.244 §7.5.4.9.
    group RemoveQer = REMOVE_QER, rule Qer {
        qer_id: M QER_ID => QerId,
    }
}
