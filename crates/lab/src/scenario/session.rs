//! The session of a scenario: rules in the words of the scenario, PFCP behind them.

use std::net::Ipv4Addr;
use std::time::Duration;

use adit_pfcp::Message;
use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateUrr, DuplicatingParameters,
    ForwardingParameters, Pdi, UpdateFar, UpdateForwardingParameters, UpdateQer,
};
use adit_pfcp::ie::{
    ActivatePredefinedRules, ApplicationId, ApplyAction, DestinationInterface, FSeid, FTeid,
    ForwardingPolicy, FramedRoute, GateStatus, NetworkInstance, NodeId, OuterHeaderCreation,
    OuterHeaderRemovalDescription, PdnType, RedirectInformation, SdfFilter, SourceInterface,
    TransportLevelMarking, UeIpAddress, UsageReportTrigger, UserPlaneInactivityTimer,
};
use adit_pfcp::message::{
    SessionEstablishmentRequest, SessionModificationRequest, SessionReportRequest,
};
use adit_types::{FarId, PdrId, Precedence, QerId, Qfi, Seid, UrrId};
use anyhow::{Context, Result, bail};

use super::probe::{DATAGRAMS, ProbeSockets};
use crate::demo::bring_up::Network;
use crate::demo::topology::LabUe;
use crate::gnb::{Leg, teid};
use adit_lab_process::stop::Stop;
use adit_lab_smf::inbox::ReportedUsage;
use adit_lab_smf::session_smf::LabSession;

/// The FAR to the data network.
pub const TO_CORE: FarId = FarId(1);
/// The FAR to the gNB.
pub const TO_ACCESS: FarId = FarId(2);
/// A FAR that drops.
pub const NOWHERE: FarId = FarId(3);
/// The QER of both directions.
pub const QER: QerId = QerId(1);
/// The first uplink PDR; it has the TEID.
pub const UPLINK: PdrId = PdrId(1);
/// The downlink PDR.
pub const DOWNLINK: PdrId = PdrId(100);

/// Time for a report to come: adit's timers, and a machine under load.
const REPORT_LIMIT: Duration = Duration::from_secs(8);

/// What a scenario works with.
#[derive(Debug)]
pub struct ScenarioContext<'a> {
    /// The network.
    pub network: &'a Network,
    /// Raised to end early.
    pub stop: &'a Stop,
    /// The scenario's UE.
    pub ue: LabUe,
}

/// An uplink PDR.
#[derive(Debug, Clone, Copy)]
pub struct UplinkPdr {
    /// Its identifier.
    pub id: PdrId,
    /// Its precedence: the lowest value wins.
    pub precedence: u32,
    /// Its FAR.
    pub far: FarId,
    /// A flow description, if not every packet matches.
    pub sdf: Option<&'static str>,
    /// An application that packets must belong to.
    pub application: Option<&'static str>,
    /// A predefined rule that is active in the PDR.
    pub predefined: Option<&'static str>,
}

impl UplinkPdr {
    /// The PDR that forwards everything.
    pub const EVERYTHING: Self = Self {
        id: UPLINK,
        precedence: 100,
        far: TO_CORE,
        sdf: None,
        application: None,
        predefined: None,
    };
}

/// The rules of a session where they differ from the usual.
#[derive(Debug, Clone, Copy)]
pub struct ScenarioRules<'r> {
    /// The uplink PDRs.
    pub uplinks: &'r [UplinkPdr],
    /// The QFI of both directions.
    pub qfi: u8,
    /// URRs of all these PDRs.
    pub urrs: &'r [CreateUrr<'r>],
    /// BARs; the first one is that of the FAR to the gNB.
    pub bars: &'r [CreateBar<'r>],
    /// Further PDRs.
    pub more_pdrs: &'r [CreatePdr<'r>],
    /// Networks behind the UE.
    pub framed_routes: &'r [FramedRoute<'r>],
    /// A tunnel towards the core.
    pub to_core: Option<OuterHeaderCreation>,
    /// Where uplink packets are redirected to.
    pub redirect: Option<RedirectInformation<'r>>,
    /// A policy that adit's configuration has, for uplink packets.
    pub policy: Option<ForwardingPolicy<'r>>,
    /// Copies of uplink packets.
    pub duplicates: &'r [DuplicatingParameters<'r>],
    /// Another tunnel towards the access than the gNB's.
    pub to_access: Option<OuterHeaderCreation>,
    /// The DSCP of outer headers towards the access.
    pub marking: Option<TransportLevelMarking>,
    /// The time without packets that is reported.
    pub inactivity: Option<UserPlaneInactivityTimer>,
    /// adit chooses the UE's IPv4 address.
    pub ue_from_pool: bool,
    /// The F-TEID has an IPv6 address; packets from the gNB's TUN devices are not connected.
    pub n3_over_ipv6: bool,
    /// The network instance of the data network.
    pub network_instance: Option<NetworkInstance<'r>>,
    /// Another UE IPv4 address than that of the stage's UE.
    pub ue: Option<Ipv4Addr>,
}

impl ScenarioRules<'_> {
    /// The QFI of most scenarios.
    pub const QFI: u8 = 9;

    /// Everything is forwarded both ways.
    pub const USUAL: Self = Self {
        uplinks: &[UplinkPdr::EVERYTHING],
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

/// A scenario's session. It is deleted by [`Session::end`].
#[derive(Debug)]
pub struct ScenarioSession<'a> {
    stage: &'a ScenarioContext<'a>,
    established: LabSession,
}

impl<'a> ScenarioContext<'a> {
    /// Index of the UE at the gNB.
    #[must_use]
    pub fn index(&self) -> u8 {
        self.ue.0.saturating_sub(1)
    }

    /// Establishes the scenario's session: these uplink PDRs on one TEID, a downlink PDR, the three
    /// FARs, and a QER with open gates and `qfi`.
    ///
    /// # Errors
    /// adit refuses; interrupted.
    pub fn establish(&'a self, uplinks: &[UplinkPdr], qfi: u8) -> Result<ScenarioSession<'a>> {
        self.establish_with(&ScenarioRules { uplinks, qfi, ..ScenarioRules::USUAL })
    }

    /// Establishes the scenario's session with these rules.
    ///
    /// # Errors
    /// adit refuses; interrupted.
    pub fn establish_with(&'a self, rules: &ScenarioRules<'_>) -> Result<ScenarioSession<'a>> {
        let smf = &self.network.smf;
        let pdrs = Pdrs::new(rules, self.ue);
        let to_gnb = OuterHeaderCreation::gtpu_ipv4(teid(self.index(), Leg::First), smf.gnb());
        let fars = fars(rules, to_gnb);
        let qers =
            [CreateQer { qfi: Qfi::new(rules.qfi), ..CreateQer::new(QER, GateStatus::OPEN) }];
        let create_pdrs = pdrs.create(rules);
        let request = SessionEstablishmentRequest {
            create_qers: (&qers).into(),
            create_urrs: rules.urrs.into(),
            create_bars: rules.bars.into(),
            user_plane_inactivity_timer: rules.inactivity,
            pdn_type: Some(PdnType::Ipv4),
            ..SessionEstablishmentRequest::new(
                NodeId::Ipv4(smf.address()),
                FSeid::new(self.cp_seid(), smf.address().into()),
                create_pdrs[..].into(),
                (&fars).into(),
            )
        };
        let established = smf.establish_as(&request, || self.stop.check())?;
        if !rules.n3_over_ipv6 {
            self.network.gnb.connect(usize::from(self.index()), established.uplink_teid);
        }
        Ok(ScenarioSession { stage: self, established })
    }

    /// The SMF's SEID of the scenario's session.
    #[must_use]
    pub fn cp_seid(&self) -> Seid {
        Seid(u64::from(self.ue.0))
    }
}

/// The parts of PDRs that `CreatePdr` borrows.
struct Pdrs<'r> {
    from_ue: [UeIpAddress; 1],
    to_ue: [UeIpAddress; 1],
    qers: [QerId; 1],
    urrs: Vec<UrrId>,
    filters: Vec<Vec<SdfFilter<'r>>>,
    predefined: Vec<Vec<ActivatePredefinedRules<'r>>>,
}

impl<'r> Pdrs<'r> {
    fn new(rules: &ScenarioRules<'r>, ue: LabUe) -> Self {
        let given = (!rules.ue_from_pool).then(|| rules.ue.unwrap_or_else(|| ue.ipv4()));
        let address = |destination| {
            let choose_v4 = rules.ue_from_pool;
            [UeIpAddress { v4: given, choose_v4, destination, ..UeIpAddress::default() }]
        };
        let filters = rules.uplinks.iter().map(|uplink| uplink.sdf.map(filter));
        let name = |name: &'static str| ActivatePredefinedRules(name.as_bytes());
        let predefined = rules.uplinks.iter().map(|uplink| uplink.predefined.map(name));
        Self {
            from_ue: address(false),
            to_ue: address(true),
            qers: [QER],
            urrs: rules.urrs.iter().map(|urr| urr.urr_id).collect(),
            filters: filters.map(|filter| filter.into_iter().collect()).collect(),
            predefined: predefined.map(|name| name.into_iter().collect()).collect(),
        }
    }

    fn create(&'r self, rules: &ScenarioRules<'r>) -> Vec<CreatePdr<'r>> {
        let v6 = rules.n3_over_ipv6;
        let removal = match v6 {
            true => OuterHeaderRemovalDescription::GtpuUdpIpv6,
            false => OuterHeaderRemovalDescription::GtpuUdpIpv4,
        };
        let uplink = |((uplink, filters), predefined): ((&UplinkPdr, &'r Vec<_>), &'r Vec<_>)| {
            let pdi = Pdi {
                local_f_teid: Some(FTeid::Choose { v4: !v6, v6, choose_id: Some(1) }),
                ue_ip_addresses: (&self.from_ue).into(),
                sdf_filters: filters[..].into(),
                application_id: uplink.application.map(|id| ApplicationId(id.as_bytes())),
                framed_routes: rules.framed_routes.into(),
                ..Pdi::new(SourceInterface::Access)
            };
            CreatePdr {
                outer_header_removal: Some(removal.into()),
                far_id: Some(uplink.far),
                qer_ids: (&self.qers).into(),
                urr_ids: self.urrs[..].into(),
                activate_predefined_rules: predefined[..].into(),
                ..CreatePdr::new(uplink.id, Precedence(uplink.precedence), pdi)
            }
        };
        let uplinks = rules.uplinks.iter().zip(&self.filters).zip(&self.predefined);
        let mut pdrs: Vec<CreatePdr<'r>> = uplinks.map(uplink).collect();
        let pdi = Pdi {
            ue_ip_addresses: (&self.to_ue).into(),
            framed_routes: rules.framed_routes.into(),
            network_instance: rules.network_instance,
            ..Pdi::new(SourceInterface::Core)
        };
        pdrs.push(CreatePdr {
            far_id: Some(TO_ACCESS),
            qer_ids: (&self.qers).into(),
            urr_ids: self.urrs[..].into(),
            ..CreatePdr::new(DOWNLINK, Precedence(100), pdi)
        });
        pdrs.extend(rules.more_pdrs);
        pdrs
    }
}

fn filter(text: &str) -> SdfFilter<'_> {
    SdfFilter { flow_description: Some(text.as_bytes()), ..SdfFilter::default() }
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
    let forward = |id, parameters| CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(id, ApplyAction::FORW)
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
    /// The SEID and TEID that adit gave.
    #[must_use]
    pub fn established(&self) -> &LabSession {
        &self.established
    }

    /// Changes rules; the workers use them when this returns.
    ///
    /// # Errors
    /// adit refuses; interrupted.
    pub fn modify(&self, request: &SessionModificationRequest<'_>) -> Result<()> {
        self.stage.network.smf.modify(&self.established, request, || self.stage.stop.check())
    }

    /// Sets an Apply Action.
    ///
    /// # Errors
    /// As for [`Self::modify`].
    pub fn apply(&self, far: FarId, action: ApplyAction) -> Result<()> {
        let fars = [UpdateFar { apply_action: Some(action), ..UpdateFar::new(far) }];
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_fars: (&fars).into(), ..none })
            .with_context(|| format!("Apply Action {action:?}"))
    }

    /// Changes how a FAR forwards.
    ///
    /// # Errors
    /// As for [`Self::modify`].
    pub fn forward(&self, far: FarId, parameters: UpdateForwardingParameters<'_>) -> Result<()> {
        let update_forwarding_parameters = Some(parameters);
        let fars = [UpdateFar { update_forwarding_parameters, ..UpdateFar::new(far) }];
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_fars: (&fars).into(), ..none })
    }

    /// Changes the QER.
    ///
    /// # Errors
    /// As for [`Self::modify`].
    pub fn enforce(&self, qer: UpdateQer<'_>) -> Result<()> {
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_qers: (&[qer]).into(), ..none })
    }

    /// Waits for a Session Report Request about this session of which `pick` makes something.
    ///
    /// # Errors
    /// None comes in time; interrupted.
    pub fn report<T>(
        &self,
        what: &str,
        mut pick: impl FnMut(&SessionReportRequest<'_>) -> Option<T>,
    ) -> Result<T> {
        let (inbox, stop) = (self.stage.network.smf.inbox(), self.stage.stop);
        inbox.wait(
            what,
            REPORT_LIMIT,
            || stop.check(),
            |seid, message| match message {
                Message::SessionReportRequest(report) if seid == Some(self.stage.cp_seid()) => {
                    pick(report)
                }
                _ => None,
            },
        )
    }

    /// Waits for a usage report of one of `triggers`.
    ///
    /// # Errors
    /// As for [`Self::report`].
    pub fn usage(&self, what: &str, triggers: UsageReportTrigger) -> Result<ReportedUsage> {
        self.report(what, |report| {
            let mut usages = report.usage_reports.iter().map(|usage| ReportedUsage::of(&usage));
            usages.find(|usage| usage.trigger.intersects(triggers))
        })
    }

    /// Deletes the session and returns the last usage of its URRs.
    ///
    /// # Errors
    /// adit refuses; interrupted.
    pub fn end(self) -> Result<Vec<ReportedUsage>> {
        let stage = self.stage;
        let usages = stage.network.smf.delete(&self.established, || stage.stop.check())?;
        stage.network.gnb.connect(usize::from(stage.index()), adit_types::Teid(0));
        Ok(usages)
    }
}

/// All datagrams must arrive, in their order and once.
///
/// # Errors
/// They do not.
pub fn all(what: &str, arrived: &[u32]) -> Result<()> {
    if !arrived.iter().copied().eq(0..DATAGRAMS) {
        bail!("{what}: of {DATAGRAMS} datagrams arrived {arrived:?}");
    }
    Ok(())
}

/// No datagram may arrive.
///
/// # Errors
/// One does.
pub fn none(what: &str, arrived: &[u32]) -> Result<()> {
    if !arrived.is_empty() {
        bail!("{what}: {arrived:?} arrived, nothing should");
    }
    Ok(())
}

/// Both directions pass.
///
/// # Errors
/// They do not.
pub fn both(what: &str, probe: &ProbeSockets) -> Result<()> {
    all(&format!("{what}, uplink"), &probe.uplink()?)?;
    all(&format!("{what}, downlink"), &probe.downlink()?)
}
