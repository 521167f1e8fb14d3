//! The PFCP session of a scenario: its rules, and the procedures that establish and change it.

use std::net::Ipv4Addr;
use std::time::Duration;

use adit_lab_process::stop::Stop;
use adit_lab_smf::inbox::ReportedUsage;
use adit_lab_smf::rules::{FlowPdr, LabSessionRules, forward};
pub(super) use adit_lab_smf::single::QER;
use adit_lab_smf::single::{DOWNLINK_FAR, LabSession, UPLINK_FAR, UPLINK_PDR};
use adit_pfcp::Message;
use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateUrr, DuplicatingParameters,
    ForwardingParameters, UpdateFar, UpdateForwardingParameters, UpdateQer,
};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FTeid, ForwardingPolicy, FramedRoute, GateStatus,
    NetworkInstance, OuterHeaderCreation, RedirectInformation, TransportLevelMarking, UeIpAddress,
    UsageReportTrigger, UserPlaneInactivityTimer,
};
use adit_pfcp::message::{SessionModificationRequest, SessionReportRequest};
use adit_types::{FarId, PdrId, Qfi, Seid};
use anyhow::{Context, Result};

use crate::demo::bring_up::Network;
use crate::gnb::{Leg, teid};
use crate::topology::{GNB, LabUe};

/// The FAR to the data network.
pub(super) const TO_CORE: FarId = UPLINK_FAR;
/// The FAR to the gNB.
pub(super) const TO_ACCESS: FarId = DOWNLINK_FAR;
/// A FAR that drops.
pub(super) const NOWHERE: FarId = FarId(3);
/// The first uplink PDR, to which the session's TEID belongs.
pub(super) const UPLINK: PdrId = UPLINK_PDR;
/// The downlink PDR.
pub(super) const DOWNLINK: PdrId = PdrId(100);

/// Timeout for a report. It exceeds adit's timers, even on a machine under load.
const REPORT_LIMIT: Duration = Duration::from_secs(8);

/// The environment of a scenario.
#[derive(Debug)]
pub(super) struct ScenarioContext<'a> {
    /// The network.
    pub network: &'a Network,
    /// Raised if the lab should stop early.
    pub stop: &'a Stop,
    /// The scenario's UE.
    pub ue: LabUe,
}

/// The PDR that forwards all uplink packets.
pub(super) const ALL_UPLINK: FlowPdr<'static> = FlowPdr::all_traffic(UPLINK, PRECEDENCE, TO_CORE);
/// Precedence of the PDRs for all traffic.
const PRECEDENCE: u32 = 100;

/// The rules of a session; [`ScenarioRules::USUAL`] has the default of each field.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScenarioRules<'r> {
    /// The uplink PDRs.
    pub uplinks: &'r [FlowPdr<'r>],
    /// The QFI for both directions.
    pub qfi: u8,
    /// URRs that all PDRs use.
    pub urrs: &'r [CreateUrr<'r>],
    /// BARs; the FAR to the gNB uses the first one.
    pub bars: &'r [CreateBar<'r>],
    /// PDRs in addition to the usual ones.
    pub more_pdrs: &'r [CreatePdr<'r>],
    /// Networks behind the UE.
    pub framed_routes: &'r [FramedRoute<'r>],
    /// Outer header for uplink packets, if they leave through a tunnel.
    pub to_core: Option<OuterHeaderCreation>,
    /// Redirection of uplink packets.
    pub redirect: Option<RedirectInformation<'r>>,
    /// A forwarding policy in adit's configuration, for uplink packets.
    pub policy: Option<ForwardingPolicy<'r>>,
    /// Duplication of uplink packets.
    pub duplicates: &'r [DuplicatingParameters<'r>],
    /// Outer header for downlink packets, instead of the gNB's tunnel.
    pub to_access: Option<OuterHeaderCreation>,
    /// Marking of the outer headers of downlink packets.
    pub marking: Option<TransportLevelMarking>,
    /// The User Plane Inactivity Timer.
    pub inactivity: Option<UserPlaneInactivityTimer>,
    /// True if adit allocates the UE's IPv4 address.
    pub ue_from_pool: bool,
    /// True for an F-TEID with an IPv6 address, which the gNB's TUN devices do not use.
    pub n3_over_ipv6: bool,
    /// The network instance of the data network.
    pub network_instance: Option<NetworkInstance<'r>>,
    /// UE IPv4 address, if it is not that of the scenario's UE.
    pub ue: Option<Ipv4Addr>,
}

impl ScenarioRules<'_> {
    /// The QFI of most scenarios.
    pub(super) const QFI: u8 = 9;

    /// The usual rules, which forward everything in both directions.
    pub(super) const USUAL: Self = Self {
        uplinks: &[ALL_UPLINK],
        qfi: Self::QFI,
        urrs: &[],
        bars: &[],
        more_pdrs: &[],
        framed_routes: &[],
        to_core: None,
        redirect: None,
        policy: None,
        duplicates: &[],
        to_access: None,
        marking: None,
        inactivity: None,
        ue_from_pool: false,
        n3_over_ipv6: false,
        network_instance: None,
        ue: None,
    };
}

/// The session of a scenario. [`ScenarioSession::end`] deletes it.
#[derive(Debug)]
pub(super) struct ScenarioSession<'a> {
    context: &'a ScenarioContext<'a>,
    established: LabSession,
}

impl<'a> ScenarioContext<'a> {
    /// Returns the index of the UE at the gNB.
    #[must_use]
    pub(super) fn index(&self) -> u8 {
        self.ue.0.saturating_sub(1)
    }

    /// Establishes the scenario's session: `uplinks` on one TEID, a downlink PDR, the three FARs,
    /// and a QER with open gates and `qfi`.
    ///
    /// # Errors
    /// adit refuses, or a signal interrupts.
    /// adit refuses; interrupted.
    pub(super) fn establish(
        &'a self,
        uplinks: &[FlowPdr<'_>],
        qfi: u8,
    ) -> Result<ScenarioSession<'a>> {
        self.establish_with(&ScenarioRules { uplinks, qfi, ..ScenarioRules::USUAL })
    }

    /// Establishes the scenario's session with these rules.
    ///
    /// # Errors
    /// adit refuses, or a signal interrupts.
    pub(super) fn establish_with(
        &'a self,
        rules: &ScenarioRules<'_>,
    ) -> Result<ScenarioSession<'a>> {
        let to_gnb = OuterHeaderCreation::gtpu_ipv4(teid(self.index(), Leg::First), GNB);
        let v6 = rules.n3_over_ipv6;
        let given = (!rules.ue_from_pool).then(|| rules.ue.unwrap_or_else(|| self.ue.ipv4()));
        let session = LabSessionRules {
            cp_seid: self.cp_seid(),
            f_teid: FTeid::Choose { v4: !v6, v6, choose_id: Some(1) },
            ue: UeIpAddress { v4: given, choose_v4: rules.ue_from_pool, ..UeIpAddress::default() },
            framed_routes: rules.framed_routes,
            network_instances: [None, rules.network_instance],
            uplinks: rules.uplinks,
            downlinks: &[FlowPdr::all_traffic(DOWNLINK, PRECEDENCE, TO_ACCESS)],
            more_pdrs: rules.more_pdrs,
            fars: &fars(rules, to_gnb),
            qers: &[CreateQer {
                qfi: Qfi::new(rules.qfi),
                ..CreateQer::new(QER, GateStatus::OPEN)
            }],
            urrs: rules.urrs,
            bars: rules.bars,
            inactivity: rules.inactivity,
        };
        let established = self.network.smf.establish_session(&session, || self.stop.check())?;
        if !rules.n3_over_ipv6 {
            self.network.gnb.connect(usize::from(self.index()), established.uplink_teid);
        }
        Ok(ScenarioSession { context: self, established })
    }

    /// Returns the SMF's SEID of the scenario's session.
    #[must_use]
    pub(super) fn cp_seid(&self) -> Seid {
        Seid(u64::from(self.ue.0))
    }
}

fn fars<'r>(rules: &ScenarioRules<'r>, to_gnb: OuterHeaderCreation) -> [CreateFar<'r>; 3] {
    let to_core = ForwardingParameters {
        outer_header_creation: rules.to_core,
        redirect_information: rules.redirect,
        forwarding_policy: rules.policy,
        network_instance: rules.network_instance,
        ..ForwardingParameters::new(DestinationInterface::Core)
    };
    let to_access = ForwardingParameters {
        outer_header_creation: Some(rules.to_access.unwrap_or(to_gnb)),
        transport_level_marking: rules.marking,
        ..ForwardingParameters::new(DestinationInterface::Access)
    };
    let bar_id = rules.bars.first().map(|bar| bar.bar_id);
    let copies = match rules.duplicates.is_empty() {
        true => ApplyAction::empty(),
        false => ApplyAction::DUPL,
    };
    [
        CreateFar {
            apply_action: ApplyAction::FORW | copies,
            duplicating_parameters: rules.duplicates.into(),
            ..forward(TO_CORE, to_core)
        },
        CreateFar { bar_id, ..forward(TO_ACCESS, to_access) },
        CreateFar::new(NOWHERE, ApplyAction::DROP),
    ]
}

impl ScenarioSession<'_> {
    /// Returns the SEID and the TEIDs that adit allocated.
    #[must_use]
    pub(super) fn established(&self) -> &LabSession {
        &self.established
    }

    /// Changes rules. The workers use the new rules once this returns.
    ///
    /// # Errors
    /// adit refuses, or a signal interrupts.
    pub(super) fn modify(&self, request: &SessionModificationRequest<'_>) -> Result<()> {
        self.context
            .network
            .smf
            .modify_session(&self.established, request, || self.context.stop.check())
    }

    /// Sets the Apply Action of a FAR.
    ///
    /// # Errors
    /// See [`Self::modify`].
    pub(super) fn apply(&self, far: FarId, action: ApplyAction) -> Result<()> {
        let fars = [UpdateFar { apply_action: Some(action), ..UpdateFar::new(far) }];
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_fars: (&fars).into(), ..none })
            .with_context(|| format!("Apply Action {action:?}"))
    }

    /// Changes the forwarding parameters of a FAR.
    ///
    /// # Errors
    /// See [`Self::modify`].
    pub(super) fn forward(
        &self,
        far: FarId,
        parameters: UpdateForwardingParameters<'_>,
    ) -> Result<()> {
        let update_forwarding_parameters = Some(parameters);
        let fars = [UpdateFar { update_forwarding_parameters, ..UpdateFar::new(far) }];
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_fars: (&fars).into(), ..none })
    }

    /// Changes the QER.
    ///
    /// # Errors
    /// See [`Self::modify`].
    pub(super) fn enforce(&self, qer: UpdateQer<'_>) -> Result<()> {
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_qers: (&[qer]).into(), ..none })
    }

    /// Waits for a Session Report Request about this session for which `pick` returns a value.
    ///
    /// # Errors
    /// No such report arrives in time, or a signal interrupts.
    pub(super) fn report<T>(
        &self,
        what: &str,
        mut pick: impl FnMut(&SessionReportRequest<'_>) -> Option<T>,
    ) -> Result<T> {
        let (inbox, stop) = (self.context.network.smf.inbox(), self.context.stop);
        inbox.wait(
            what,
            REPORT_LIMIT,
            || stop.check(),
            |seid, message| match message {
                Message::SessionReportRequest(report) if seid == Some(self.context.cp_seid()) => {
                    pick(report)
                }
                _ => None,
            },
        )
    }

    /// Waits for a usage report with one of `triggers`.
    ///
    /// # Errors
    /// See [`Self::report`].
    pub(super) fn usage(&self, what: &str, triggers: UsageReportTrigger) -> Result<ReportedUsage> {
        self.report(what, |report| {
            let mut usages = report.usage_reports.iter().map(|usage| ReportedUsage::of(&usage));
            usages.find(|usage| usage.trigger.intersects(triggers))
        })
    }

    /// Deletes the session and returns the final usage reports of its URRs.
    ///
    /// # Errors
    /// adit refuses, or a signal interrupts.
    pub(super) fn end(self) -> Result<Vec<ReportedUsage>> {
        let context = self.context;
        let usages =
            context.network.smf.delete_session(&self.established, || context.stop.check())?;
        context.network.gnb.connect(usize::from(context.index()), adit_types::Teid(0));
        Ok(usages)
    }
}
