//! The session of a scenario: rules in the words of the scenario, PFCP behind them.

use adit_pfcp::grouped::{
    CreateFar, CreatePdr, CreateQer, ForwardingParameters, Pdi, UpdateFar, UpdateQer,
};
use adit_pfcp::ie::{
    ApplyAction, DestinationInterface, FSeid, FTeid, GateStatus, NodeId, OuterHeaderCreation,
    OuterHeaderRemovalDescription, PdnType, SdfFilter, SourceInterface, UeIpAddress,
};
use adit_pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use adit_types::{FarId, PdrId, Precedence, QerId, Qfi, Seid};
use anyhow::{Context, Result, bail};

use super::probe::{DATAGRAMS, Probe};
use crate::demo::bring_up::Network;
use crate::demo::topology::Ue;
use crate::gnb::{Leg, teid};
use crate::smf::Established;
use crate::stop::Stop;

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

/// What a scenario works with.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The network.
    pub network: &'a Network,
    /// Raised to end early.
    pub stop: &'a Stop,
    /// The scenario's UE.
    pub ue: Ue,
}

/// An uplink PDR.
#[derive(Debug, Clone, Copy)]
pub struct Uplink {
    /// Its identifier.
    pub id: PdrId,
    /// Its precedence: the lowest value wins.
    pub precedence: u32,
    /// Its FAR.
    pub far: FarId,
    /// A flow description, if not every packet matches.
    pub sdf: Option<&'static str>,
}

impl Uplink {
    /// The PDR that forwards everything.
    pub const EVERYTHING: Self = Self { id: UPLINK, precedence: 100, far: TO_CORE, sdf: None };
}

/// A scenario's session. It is deleted by [`Session::end`].
#[derive(Debug)]
pub struct Session<'a> {
    stage: &'a Stage<'a>,
    established: Established,
}

impl<'a> Stage<'a> {
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
    pub fn establish(&'a self, uplinks: &[Uplink], qfi: u8) -> Result<Session<'a>> {
        let smf = &self.network.smf;
        let ue = |destination| {
            [UeIpAddress { v4: Some(self.ue.ipv4()), destination, ..UeIpAddress::default() }]
        };
        let (from_ue, to_ue, qers) = (ue(false), ue(true), [QER]);
        let filters: Vec<Vec<SdfFilter<'_>>> =
            uplinks.iter().map(|uplink| uplink.sdf.map(filter).into_iter().collect()).collect();
        let mut pdrs: Vec<CreatePdr<'_>> = uplinks
            .iter()
            .zip(&filters)
            .map(|(uplink, filters)| CreatePdr {
                outer_header_removal: Some(OuterHeaderRemovalDescription::GtpuUdpIpv4.into()),
                far_id: Some(uplink.far),
                qer_ids: (&qers).into(),
                ..CreatePdr::new(
                    uplink.id,
                    Precedence(uplink.precedence),
                    Pdi {
                        local_f_teid: Some(FTeid::Choose {
                            v4: true,
                            v6: false,
                            choose_id: Some(1),
                        }),
                        ue_ip_addresses: (&from_ue).into(),
                        sdf_filters: filters[..].into(),
                        ..Pdi::new(SourceInterface::Access)
                    },
                )
            })
            .collect();
        let pdi = Pdi { ue_ip_addresses: (&to_ue).into(), ..Pdi::new(SourceInterface::Core) };
        pdrs.push(CreatePdr {
            far_id: Some(TO_ACCESS),
            qer_ids: (&qers).into(),
            ..CreatePdr::new(DOWNLINK, Precedence(100), pdi)
        });
        let tunnel = OuterHeaderCreation::gtpu_ipv4(teid(self.index(), Leg::First), smf.gnb());
        let fars = fars(tunnel);
        let qers = [CreateQer { qfi: Qfi::new(qfi), ..CreateQer::new(QER, GateStatus::OPEN) }];
        let request = SessionEstablishmentRequest {
            create_qers: (&qers).into(),
            pdn_type: Some(PdnType::Ipv4),
            ..SessionEstablishmentRequest::new(
                NodeId::Ipv4(smf.address()),
                FSeid::new(Seid(u64::from(self.ue.0)), smf.address().into()),
                pdrs[..].into(),
                (&fars).into(),
            )
        };
        let established = smf.establish_as(&request, || self.stop.check())?;
        self.network.gnb.connect(usize::from(self.index()), established.uplink_teid);
        Ok(Session { stage: self, established })
    }
}

fn filter(text: &str) -> SdfFilter<'_> {
    SdfFilter { flow_description: Some(text.as_bytes()), ..SdfFilter::default() }
}

fn fars(to_gnb: OuterHeaderCreation) -> [CreateFar<'static>; 3] {
    let to_core = ForwardingParameters::new(DestinationInterface::Core);
    let to_access = ForwardingParameters {
        outer_header_creation: Some(to_gnb),
        ..ForwardingParameters::new(DestinationInterface::Access)
    };
    let forward = |id, parameters| CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(id, ApplyAction::FORW)
    };
    [
        forward(TO_CORE, to_core),
        forward(TO_ACCESS, to_access),
        CreateFar::new(NOWHERE, ApplyAction::DROP),
    ]
}

impl Session<'_> {
    /// The SEID and TEID that adit gave.
    #[must_use]
    pub fn established(&self) -> &Established {
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

    /// Changes the QER.
    ///
    /// # Errors
    /// As for [`Self::modify`].
    pub fn enforce(&self, qer: UpdateQer<'_>) -> Result<()> {
        let none = SessionModificationRequest::new();
        self.modify(&SessionModificationRequest { update_qers: (&[qer]).into(), ..none })
    }

    /// Deletes the session.
    ///
    /// # Errors
    /// adit refuses; interrupted.
    pub fn end(self) -> Result<()> {
        let stage = self.stage;
        stage.network.smf.delete(&self.established, || stage.stop.check())?;
        stage.network.gnb.connect(usize::from(stage.index()), adit_types::Teid(0));
        Ok(())
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
pub fn both(what: &str, probe: &Probe) -> Result<()> {
    all(&format!("{what}, uplink"), &probe.uplink()?)?;
    all(&format!("{what}, downlink"), &probe.downlink()?)
}
