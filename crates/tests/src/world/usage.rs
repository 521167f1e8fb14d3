//! Usage and session counters of both sides.

use adit_session::UsageReport;
use adit_types::{Seid, SessionIndex, UrrId};

use super::World;
use crate::oracle::OracleUsage;

impl World {
    /// Adds usage reports to the reported usage of the oracle.
    pub(super) fn take_reports(&mut self, seid: Seid, reports: &[UsageReport]) {
        let session = self.oracle.sessions.iter_mut().find(|(known, _)| *known == seid);
        let session = &mut session.unwrap().1;
        for report in reports {
            let volume = report.volume.unwrap();
            let usage = session.usage.get_mut(&report.urr).unwrap();
            usage.reported.0 += volume.ul_bytes;
            usage.reported.1 += volume.dl_bytes;
        }
    }

    /// Checks that reported usage and usage since then add up to the oracle's measurement.
    pub(super) fn check_usage(&self) -> Result<(), String> {
        for (seid, session) in &self.oracle.sessions {
            for so_far in self.store.running_usage(self.store.session(*seid).unwrap()) {
                let usage = session.usage[&so_far.urr];
                let got = (
                    usage.reported.0 + so_far.volume.ul_bytes,
                    usage.reported.1 + so_far.volume.dl_bytes,
                );
                if got != usage.measured {
                    let urr = so_far.urr;
                    return Err(format!("session {seid} URR {urr}: {got:?}, oracle {usage:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks the last reports of the URRs that a change removed.
    pub(super) fn check_final_reports(&mut self, session: SessionIndex) {
        for report in self.store.final_reports(self.now, session) {
            let same = |(index, urr, _): &(SessionIndex, UrrId, OracleUsage)| {
                (*index, *urr) == (session, report.urr)
            };
            let at = self.ending.iter().position(same).unwrap();
            let (_, _, usage) = self.ending.remove(at);
            let volume = report.volume.unwrap();
            let sum = (usage.reported.0 + volume.ul_bytes, usage.reported.1 + volume.dl_bytes);
            assert_eq!(sum, usage.measured, "last report {report:?}");
        }
    }

    /// Sets the oracle's session counters to the pipeline's, so that only new differences show.
    pub(super) fn trust_session_counters(&mut self) {
        for (seid, session) in &mut self.oracle.sessions {
            let index = self.store.session(*seid).unwrap().index();
            let traffic = self.publisher.session_traffic(index);
            session.uplink = (traffic.ul_pkts, traffic.ul_bytes);
            session.downlink = (traffic.dl_pkts, traffic.dl_bytes);
            for so_far in self.store.running_usage(self.store.session(*seid).unwrap()) {
                let usage = session.usage.get_mut(&so_far.urr).unwrap();
                usage.measured = (
                    usage.reported.0 + so_far.volume.ul_bytes,
                    usage.reported.1 + so_far.volume.dl_bytes,
                );
            }
        }
    }

    pub(super) fn check_traffic(&self) -> Result<(), String> {
        for (seid, session) in &self.oracle.sessions {
            let index = self.store.session(*seid).unwrap().index();
            let traffic = self.publisher.session_traffic(index);
            let got = ((traffic.ul_pkts, traffic.ul_bytes), (traffic.dl_pkts, traffic.dl_bytes));
            let want = (session.uplink, session.downlink);
            if got != want {
                return Err(format!("session {seid} counts {got:?}, oracle {want:?}"));
            }
        }
        Ok(())
    }
}
