package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
)

const (
	flowText  = "permit out 17 from 10.0.6.1/32 5050 to assigned"
	otherText = "permit out 17 from 10.0.6.1/32 5001 to assigned"
)

func free5gcCases(w *World) ([]testCase, error) {
	f, err := newFree5GC(w)
	if err != nil {
		return nil, err
	}
	return []testCase{
		{"association; heartbeats", f.begin},
		{"IPv4 session with the SMF's F-TEID: nothing leaves before the AN tunnel; traffic both ways", f.basic},
		{"two sessions, whose rules are numbered on", f.twoSessions},
		{"flows in the establishment; flow added and removed while its QER stays", f.flows},
		{"idle: report answered late, buffered packets delivered, twice", f.with(f.idle)},
		{"Error Indication of the gNB is reported", f.with(f.indicated)},
		{"Xn handover with End Marker; the flag stays set in the idle after it", f.with(f.xn)},
		{"N2 handover with indirect forwarding", f.with(f.n2)},
		{"one tunnel becomes two", f.secondTunnel},
		{"N9: intermediate UPF with F-TEIDs of either side, End Marker passed on", f.intermediate},
		{"usage: two URRs, query, threshold, last report", f.usage},
		{"online charging: start, quota, a Quota Validity Time that means nothing", f.charging},
		{"restart of the UPF: sessions released without a word, new ones", f.restarted},
		{"end of the last session", f.end},
	}, nil
}

func (f *free5gc) begin() error {
	if err := f.associate(); err != nil {
		return err
	}
	started, err := f.smf.heartbeat(f.smf.started)
	if err != nil {
		return err
	}
	if !started.Equal(f.upStarted) {
		return fmt.Errorf("Recovery Time Stamp %v in the heartbeat, %v in the association", started, f.upStarted)
	}
	return f.openFence()
}

func (f *free5gc) openFence() error {
	s, err := f.open()
	if err != nil {
		return err
	}
	f.fence, f.fenceSession = &s.UE, s
	return nil
}

func (f *free5gc) basic() error {
	s := f.newSession()
	if err := s.establish(nil); err != nil {
		return err
	}
	// There is no tunnel for this packet yet.
	if err := f.server.send(s.v4, uePort, "before the AN tunnel"); err != nil {
		return err
	}
	if err := f.upTo(&s.UE, f.server, 1); err != nil {
		return err
	}
	if err := f.settled(); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := f.bothWays(&s.UE); err != nil {
		return err
	}
	if _, err := s.release(); err != nil {
		return err
	}
	return f.wantDead(&s.UE)
}

func (f *free5gc) twoSessions() error {
	one, err := f.open()
	if err != nil {
		return err
	}
	two, err := f.open()
	if err != nil {
		return err
	}
	for _, s := range []*free5gcSession{one, two, one} {
		if err := f.bothWays(&s.UE); err != nil {
			return err
		}
	}
	if _, err := one.release(); err != nil {
		return err
	}
	if err := f.bothWays(&two.UE); err != nil {
		return err
	}
	_, err = two.release()
	return err
}

// gbrFlow is a path for a flow with its own QER.
func (f *free5gc) gbrFlow(qfi byte, flow string) dataPath {
	p := f.path(uint32(100+qfi), qfi, flow)
	p.qers = []uint32{f.qer()}
	return p
}

func (f *free5gc) flows() error {
	s := f.newSession()
	if err := s.establish(nil, f.gbrFlow(2, flowText)); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := f.carries(&s.UE, f.flow, 2); err != nil {
		return err
	}
	if err := f.carries(&s.UE, f.server, 1); err != nil {
		return err
	}
	added := f.gbrFlow(3, otherText)
	if _, err := s.modify(s.createPDRs(added), createFARs(added), flowQER(added)); err != nil {
		return fmt.Errorf("flow added: %w", err)
	}
	s.paths = append(s.paths, added)
	if err := s.activate(); err != nil {
		return err
	}
	if err := f.carries(&s.UE, f.server, 3); err != nil {
		return err
	}
	if _, err := s.modify(removePDR(pdrID(added.upPDR)), removePDR(pdrID(added.downPDR)),
		removeFAR(farID(added.upFAR)), removeFAR(farID(added.downFAR))); err != nil {
		return fmt.Errorf("flow removed: %w", err)
	}
	s.paths = s.paths[:2]
	if err := f.carries(&s.UE, f.server, 1); err != nil {
		return err
	}
	if err := f.carries(&s.UE, f.flow, 2); err != nil {
		return err
	}
	_, err := s.release()
	return err
}

func (f *free5gc) idle(s *free5gcSession) error {
	for range 2 {
		if _, err := s.modify(s.updateFARs(buffNocp1, 0)); err != nil {
			return err
		}
		texts := []string{f.text("idle"), f.text("idle")}
		for _, text := range texts {
			if err := f.server.send(s.v4, uePort, text); err != nil {
				return err
			}
		}
		report, err := f.smf.report(1, s.cp)
		if err != nil {
			return err
		}
		if err := wantDownlinkData(report, s.paths[0].downPDR); err != nil {
			return err
		}
		// The AMF is slow.
		if err := f.smf.repeated(report, 2); err != nil {
			return err
		}
		s.acknowledge(report)
		if err := f.settled(); err != nil {
			return fmt.Errorf("before the reactivation: %w", err)
		}
		if err := s.activate(); err != nil {
			return err
		}
		for _, text := range texts {
			if err := s.receives(f.server, s.down.teid, 1, text); err != nil {
				return err
			}
		}
	}
	return f.bothWays(&s.UE)
}

func (f *free5gc) indicated(s *free5gcSession) error {
	if err := s.node.errorIndication(upfN3, s.down.teid); err != nil {
		return err
	}
	report, err := f.smf.report(4, s.cp)
	if err != nil {
		return err
	}
	if err := wantIndicated(report, s.down); err != nil {
		return err
	}
	s.acknowledge(report)
	s.down = s.node.tunnel()
	if err := s.activate(); err != nil {
		return err
	}
	return f.bothWays(&s.UE)
}

// switchTo switches the path with End Markers.
func (s *free5gcSession) switchTo(node *Node, before ...[]byte) error {
	old, oldNode := s.down, s.node
	s.node, s.down = node, node.tunnel()
	if _, err := s.modify(concat(before...), s.updateFARs(forw1, 2)); err != nil {
		return err
	}
	return oldNode.endMarkers(old.teid, len(s.paths))
}

func (f *free5gc) xn(s *free5gcSession) error {
	if err := s.switchTo(f.target); err != nil {
		return err
	}
	if err := f.bothWays(&s.UE); err != nil {
		return err
	}
	// SNDEM with the same tunnel, and with BUFF: no path ends.
	if _, err := s.modify(s.updateFARs(buffNocp1, 2)); err != nil {
		return err
	}
	text := f.text("idle")
	if err := f.server.send(s.v4, uePort, text); err != nil {
		return err
	}
	report, err := f.smf.report(1, s.cp)
	if err != nil {
		return err
	}
	s.acknowledge(report)
	if err := f.settled(); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := s.receives(f.server, s.down.teid, 1, text); err != nil {
		return err
	}
	if err := s.switchTo(f.gnb); err != nil {
		return err
	}
	return f.bothWays(&s.UE)
}

func (f *free5gc) n2(s *free5gcSession) error {
	f.nextTEID++
	indirect := tunnel{f.nextTEID, upfN3}
	out := f.target.tunnel()
	f.nextPDR, f.nextFAR = f.nextPDR+1, f.nextFAR+1
	pdr, far := f.nextPDR, f.nextFAR
	if _, err := s.modify(
		createPDR(pdrID(pdr), prec(0), pdi(source(access), explicit(indirect)),
			tlv(ieOuterHeaderRemoval, hx("00")), farID(far)),
		createFAR(farID(far), action(forw1), fp(dest(access), outerV4(out)))); err != nil {
		return fmt.Errorf("indirect tunnel: %w", err)
	}
	for _, qfi := range []int{1, 5} {
		if err := f.forwarded(s.node, f.target, indirect, out, s.UE, qfi); err != nil {
			return err
		}
	}
	if err := f.downFrom(f.server, &s.UE, 1); err != nil {
		return err
	}
	if err := s.switchTo(f.target, removePDR(pdrID(pdr)), removeFAR(farID(far))); err != nil {
		return err
	}
	return f.bothWays(&s.UE)
}

func (f *free5gc) secondTunnel() error {
	flow := f.gbrFlow(2, flowText)
	s, err := f.open(flow)
	if err != nil {
		return err
	}
	f.nextTEID++
	second := s.UE
	second.up, second.node, second.down = tunnel{f.nextTEID, upfN3}, f.another, f.another.tunnel()
	moved := f.path(flow.precedence, 2, flowText)
	moved.qers = flow.qers
	other := &free5gcSession{free5gc: f, UE: second, cp: s.cp, seid: s.seid, paths: []dataPath{moved}}
	if _, err := s.modify(removePDR(pdrID(flow.upPDR)), removePDR(pdrID(flow.downPDR)),
		removeFAR(farID(flow.upFAR)), removeFAR(farID(flow.downFAR)),
		other.createPDRs(moved), createFARs(moved)); err != nil {
		return err
	}
	if err := other.activate(); err != nil {
		return err
	}
	if err := f.carries(&other.UE, f.flow, 2); err != nil {
		return err
	}
	if err := f.carries(&s.UE, f.server, 1); err != nil {
		return err
	}
	_, err = s.release()
	return err
}

// intermediate is a session at the UPF between the gNB and another UPF.
func (f *free5gc) intermediate() error {
	s := f.newSession()
	p := f.path(0xff, 1, "")
	p.qers = []uint32{f.qer()}
	f.nextTEID++
	fromCore, toCore := tunnel{f.nextTEID, upfN3}, f.another.tunnel()
	answer, err := f.smf.ask(free5gcEstablish, msgEstablishment, 0, nodeV4(f.smf.addr), f.smf.fSEID(s.cp),
		createPDR(pdrID(p.upPDR), prec(p.precedence), pdi(source(access), explicit(s.up), plainNI(),
			tlv(ieUEIPAddress, hx("02"), v4(s.v4))), tlv(ieOuterHeaderRemoval, hx("00")), farID(p.upFAR), p.qerIDs()),
		createPDR(pdrID(p.downPDR), prec(p.precedence), pdi(source(core), explicit(fromCore), plainNI(),
			tlv(ieUEIPAddress, hx("06"), v4(s.v4))), tlv(ieOuterHeaderRemoval, hx("00")), farID(p.downFAR), p.qerIDs()),
		createFAR(farID(p.upFAR), action(forw1), fp(dest(core), plainNI(), outerV4(toCore))),
		createFAR(farID(p.downFAR), action(forw1), fp(dest(access), plainNI(), outerV4(s.down))),
		createQER(qerID(p.qers[0]), tlv(ieGateStatus, hx("00")), qfiIE(1)), tlv(iePDNType, hx("01")))
	if err != nil {
		return err
	}
	if s.seid, err = upSEID(answer, s.cp); err != nil {
		return err
	}
	up := udpPacket(s.v4, dnAddr, uePort, serverPort, []byte(f.text("to the anchor")))
	if err := s.node.uplink(s.up, 1, up); err != nil {
		return err
	}
	if err := comesOutWith(f.another, toCore, 1, up); err != nil {
		return fmt.Errorf("uplink: %w", err)
	}
	down := udpPacket(dnAddr, s.v4, serverPort, uePort, []byte(f.text("from the anchor")))
	if err := f.another.downlink(fromCore, 1, down); err != nil {
		return err
	}
	if err := comesOutWith(s.node, s.down, 1, down); err != nil {
		return fmt.Errorf("downlink: %w", err)
	}
	if err := f.another.send(fromCore.addr, gtpuMessage(gtpuEndMarker, fromCore.teid, 0, noQFI, nil)); err != nil {
		return err
	}
	if err := s.node.endMarkers(s.down.teid, 1); err != nil {
		return fmt.Errorf("End Marker of the anchor: %w", err)
	}
	_, err = s.release()
	return err
}

// twoURRs are a URR before QoS enforcement and one after it.
func (s *free5gcSession) twoURRs(uplinkThreshold uint64) []byte {
	var ies []byte
	for _, information := range []string{"11", "10"} {
		s.nextURR++
		s.urrs = append(s.urrs, s.nextURR)
		ies = append(ies, createURR(urrID(s.nextURR), tlv(ieMeasurementMethod, hx("02")),
			tlv(ieReportingTriggers, hx("0300")), tlv(ieMeasurementPeriod, u32(3600)),
			tlv(ieVolumeThreshold, hx("06"), u64(uplinkThreshold), u64(1<<40)), tlv(ieMeasurementInfo, hx(information)))...)
	}
	return ies
}

func (f *free5gc) usage() error {
	s := f.newSession()
	if err := s.establish(s.twoURRs(3000)); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := f.carries(&s.UE, f.server, 1); err != nil {
		return err
	}
	answer, err := s.modify(tlv(ieQueryURR, urrID(s.urrs[0])), tlv(ieQueryURR, urrID(s.urrs[1])))
	if err != nil {
		return err
	}
	for _, urr := range s.urrs {
		if volume, count, err := usage(answer, urr); err != nil || count != 1 || volume == 0 {
			return fmt.Errorf("query: %d reports of URR %d with %d octets (%v)", count, urr, volume, err)
		}
	}
	big := strings.Repeat("x", 1200)
	for range 3 {
		if err := f.sendUp(&s.UE, f.server, 1, big); err != nil {
			return err
		}
		if err := f.server.expect(s.v4, big); err != nil {
			return err
		}
	}
	reached := map[uint32]bool{}
	for len(reached) < 2 {
		report, err := f.smf.report(2, s.cp)
		if err != nil {
			return fmt.Errorf("thresholds of %v alone: %w", reached, err)
		}
		for _, urr := range s.urrs {
			volume, count, err := usage(report, urr)
			if err != nil {
				return err
			}
			if count > 0 && volume < 3000 {
				return fmt.Errorf("threshold of 3000 octets reached at %d", volume)
			}
			reached[urr] = reached[urr] || count > 0
		}
		for urr, is := range reached {
			if !is {
				delete(reached, urr)
			}
		}
		s.acknowledge(report)
	}
	if answer, err = s.release(); err != nil {
		return err
	}
	for _, urr := range s.urrs {
		if _, count, err := usage(answer, urr); err != nil || count != 1 {
			return fmt.Errorf("last report: %d of URR %d (%v)", count, urr, err)
		}
	}
	return nil
}

func (f *free5gc) charging() error {
	s := f.newSession()
	f.nextURR++
	urr := f.nextURR
	s.urrs = []uint32{urr}
	if err := s.establish(createURR(urrID(urr), tlv(ieMeasurementMethod, hx("02")), tlv(ieReportingTriggers, hx("1000")))); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := f.upTo(&s.UE, f.server, 1); err != nil {
		return err
	}
	report, err := f.smf.report(2, s.cp)
	if err != nil {
		return fmt.Errorf("start of traffic: %w", err)
	}
	if one := report.find(ie.UsageReportWithinSessionReportRequest); one == nil || find(one.ChildIEs, ie.UsageReportTrigger) == nil {
		return fmt.Errorf("start of traffic without Usage Report")
	}
	s.acknowledge(report)
	three := concat(hx("07"), u64(1_000_000), u64(1_000_000), u64(1_000_000))
	if _, err := s.modify(updateURR(urrID(urr), tlv(ieMeasurementMethod, hx("02")), tlv(ieReportingTriggers, hx("0201")),
		tlv(ieVolumeThreshold, three), tlv(ieVolumeQuota, three), tlv(ieQuotaValidityTime, u32(1)))); err != nil {
		return fmt.Errorf("quota: %w", err)
	}
	if err := f.bothWays(&s.UE); err != nil {
		return err
	}
	// After the Quota Validity Time, which no trigger names, and far from the quota.
	time.Sleep(1500 * time.Millisecond)
	if err := f.bothWays(&s.UE); err != nil {
		return fmt.Errorf("after the Quota Validity Time: %w", err)
	}
	_, err = s.release()
	return err
}

func (f *free5gc) restarted() error {
	if _, err := f.open(); err != nil {
		return err
	}
	f.smf.forget()
	if err := restartUPF(); err != nil {
		return err
	}
	if err := f.smf.awaitRestart(f.upStarted); err != nil {
		return err
	}
	if err := f.associate(); err != nil {
		return err
	}
	// UEs return with new addresses and TEIDs.
	if err := f.openFence(); err != nil {
		return err
	}
	return f.bothWays(f.fence)
}

func (f *free5gc) end() error {
	f.fence = nil
	_, err := f.fenceSession.release()
	return err
}
