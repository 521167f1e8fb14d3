package main

import (
	"fmt"
	"strings"
	"time"
)

func oaiCases(w *World) ([]testCase, error) {
	o, err := newOAI(w)
	if err != nil {
		return nil, err
	}
	return []testCase{
		{"association set up by the UPF", o.begin},
		{"association set up again by an SMF that has not restarted, which keeps its sessions", o.again},
		{"heartbeats whose Recovery Time Stamp moves are no restart", o.heartbeats},
		{"IPv4 session: uplink alone, then downlink rules, traffic both ways", o.basic},
		{"downlink rules that drop from the first", o.dropping},
		{"second flow with CHOOSE ID 42: the session's F-TEID", o.with(o.secondFlow)},
		{"idle: every rule removed, an empty session; Service Request with CHOOSE ID 42", o.with(o.idle)},
		{"handover without End Marker", o.with(o.handover)},
		{"usage reports, answered without Cause", o.usage},
		{"IPv6 session, whose UE IP Address has no address, is answered", o.noAddress},
		{"released session: Error Indication for its F-TEID", o.released},
		{"restart of the UPF, seen by its association setup", o.restarted},
		{"end of the last session", o.end},
	}, nil
}

func (o *oai) begin() error {
	if err := o.associatedByUPF(); err != nil {
		return err
	}
	return o.openFence()
}

func (o *oai) openFence() error {
	s, err := o.open()
	if err != nil {
		return err
	}
	o.fence, o.fenceSession = &s.UE, s
	return nil
}

func (o *oai) again() error {
	before := o.fenceSession
	if err := o.associate(); err != nil {
		return err
	}
	answer, err := o.smf.send(session, msgDeletion, before.seid).wait()
	if err != nil {
		return err
	}
	if err := answer.cause(causeAccepted); err != nil {
		return err
	}
	return o.openFence()
}

func (o *oai) heartbeats() error {
	for ahead := range 3 {
		started, err := o.smf.heartbeat(time.Now().Add(time.Duration(10*ahead) * time.Second))
		if err != nil {
			return err
		}
		if !started.Equal(o.upStarted) {
			return fmt.Errorf("Recovery Time Stamp %v in the heartbeat, %v in the association", started, o.upStarted)
		}
	}
	return o.bothWays(o.fence)
}

func (o *oai) basic() error {
	s := o.newSession()
	if err := s.establish(); err != nil {
		return err
	}
	if err := o.upTo(&s.UE, o.server, s.qfi); err != nil {
		return err
	}
	if err := o.server.send(s.v4, uePort, "no rule yet"); err != nil {
		return err
	}
	if err := o.settled(); err != nil {
		return err
	}
	if _, err := s.modify(s.createDownlink(s.flow)); err != nil {
		return err
	}
	if err := o.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

func (o *oai) dropping() error {
	s := o.newSession()
	if err := s.establish(createFAR(farID(2), action(drop1)),
		createPDR(pdrID(2), prec(0), s.downPDI(s.flow), farID(2))); err != nil {
		return err
	}
	if err := o.server.send(s.v4, uePort, "to be dropped"); err != nil {
		return err
	}
	if err := o.settled(); err != nil {
		return err
	}
	if err := s.moveDownlink(); err != nil {
		return err
	}
	if err := o.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

// moveDownlink is the request of a handover: the FAR with a tunnel, and the PDR.
func (s *oaiSession) moveDownlink() error {
	_, err := s.modify(
		updateFAR(farID(2), action(forw1), ufp(dest(access), outerV4(s.down))),
		updatePDR(pdrID(2), prec(s.flow.precedence), pdi(source(core), text(ieNetworkInstance, oaiCore),
			tlv(ieUEIPAddress, hx("06"), v4(s.v4))), farID(2)))
	return err
}

func (o *oai) secondFlow(s *oaiSession) error {
	f := oaiFlow{number: 3, qfi: 6, filter: sdfText(flowText)}
	before := s.up
	answer, err := s.modify(s.createUplink(f))
	if err != nil {
		return err
	}
	if err := s.takeTunnel(answer, f.number); err != nil {
		return err
	}
	if s.up.teid != before.teid {
		return fmt.Errorf("CHOOSE ID 42 gives TEID %#x, not the session's %#x", s.up.teid, before.teid)
	}
	if _, err := s.modify(s.createDownlink(f)); err != nil {
		return err
	}
	// A packet with QFI 6 outside of the flow matches no PDR.
	if err := o.sendUp(&s.UE, o.server, 6, "matches no PDR"); err != nil {
		return err
	}
	if err := o.upTo(&s.UE, o.flow, 6); err != nil {
		return err
	}
	if err := o.downFrom(o.flow, &s.UE, noQFI); err != nil {
		return err
	}
	if _, err := s.modify(removePDR(pdrID(3)), removeFAR(farID(3)), removePDR(pdrID(4)), removeFAR(farID(4))); err != nil {
		return err
	}
	return o.bothWays(&s.UE)
}

func (o *oai) idle(s *oaiSession) error {
	for range 2 {
		if _, err := s.modify(removePDR(pdrID(1)), removeFAR(farID(1)), removePDR(pdrID(2)), removeFAR(farID(2))); err != nil {
			return err
		}
		if err := o.server.send(s.v4, uePort, "to an idle UE"); err != nil {
			return err
		}
		if err := o.settled(); err != nil {
			return err
		}
		if err := o.wantDead(&s.UE); err != nil {
			return err
		}
		s.flow.precedence++
		answer, err := s.modify(s.createUplink(s.flow))
		if err != nil {
			return fmt.Errorf("Service Request: %w", err)
		}
		if err := s.takeTunnel(answer, 1); err != nil {
			return err
		}
		s.down = s.node.tunnel()
		if _, err := s.modify(s.createDownlink(s.flow)); err != nil {
			return err
		}
		if err := o.bothWays(&s.UE); err != nil {
			return err
		}
	}
	return nil
}

func (o *oai) handover(s *oaiSession) error {
	for _, node := range []*Node{o.target, o.gnb} {
		s.node, s.down = node, node.tunnel()
		// settled would find an End Marker.
		if err := s.moveDownlink(); err != nil {
			return err
		}
		if err := o.bothWays(&s.UE); err != nil {
			return err
		}
	}
	return nil
}

func (o *oai) usage() error {
	s := o.newSession()
	s.urrs = urrID(1)
	urr := createURR(urrID(1), tlv(ieMeasurementMethod, hx("03")), tlv(ieReportingTriggers, hx("0700")),
		tlv(ieMeasurementPeriod, u32(10)), tlv(ieVolumeThreshold, hx("04"), u64(1000)), tlv(ieTimeThreshold, u32(5)))
	if err := s.establish(urr); err != nil {
		return err
	}
	if _, err := s.modify(s.createDownlink(s.flow)); err != nil {
		return err
	}
	big := strings.Repeat("x", 1100)
	for range 2 {
		if err := o.server.send(s.v4, uePort, big); err != nil {
			return err
		}
		if err := s.receives(o.server, s.down.teid, noQFI, big); err != nil {
			return err
		}
		report, err := o.smf.report(2, s.cp)
		if err != nil {
			return err
		}
		volume, count, err := usage(report, 1)
		if err != nil || count == 0 || volume < 1000 {
			return fmt.Errorf("%d reports with %d octets (%v)", count, volume, err)
		}
		// No Cause, and the SEID of the report.
		o.smf.answer(report, session, s.cp)
	}
	if err := o.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

func (o *oai) noAddress() error {
	s := o.newSession()
	answer, err := o.smf.send(session, msgEstablishment, s.cp, nodeV4(o.smf.addr), o.smf.fSEID(s.cp),
		createPDR(pdrID(1), prec(0), pdi(source(access), choose42(), text(ieNetworkInstance, oaiAccess),
			tlv(ieUEIPAddress, hx("00")), qfiIE(9), interfaceType(typeN3)), tlv(ieOuterHeaderRemoval, hx("00")), farID(1)),
		createFAR(farID(1), action(forw1), fp(dest(core), text(ieNetworkInstance, oaiCore)))).wait()
	if err != nil {
		return err
	}
	if answer.cause(causeAccepted) != nil {
		return nil
	}
	if s.seid, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	return s.release()
}

func (o *oai) released() error {
	s, err := o.open()
	if err != nil {
		return err
	}
	if err := s.release(); err != nil {
		return err
	}
	return o.wantDead(&s.UE)
}

func (o *oai) restarted() error {
	before := o.upStarted
	o.smf.forget()
	if err := restartUPF(); err != nil {
		return err
	}
	if err := o.associatedByUPF(); err != nil {
		return err
	}
	if !o.upStarted.After(before) {
		return fmt.Errorf("Recovery Time Stamp %v after a restart, %v before", o.upStarted, before)
	}
	if err := o.openFence(); err != nil {
		return err
	}
	return o.bothWays(o.fence)
}

func (o *oai) end() error {
	o.fence = nil
	return o.fenceSession.release()
}
