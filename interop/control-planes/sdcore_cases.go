package main

import (
	"fmt"
)

func sdcoreCases(w *World) ([]testCase, error) {
	c, err := newSDCore(w)
	if err != nil {
		return nil, err
	}
	return []testCase{
		{"association; heartbeats", c.begin},
		{"association of an FQDN as labels, with a session", c.byName},
		{"IPv4 session: nothing leaves before the AN tunnel, then traffic both ways", c.basic},
		{"two policy rules: the first F-TEID is that of both", c.twoRules},
		{"address from the UPF", c.addressed},
		{"flow added and removed; SDF Filter without text", c.with(c.flowAdded)},
		{"idle: report answered with the wrong SEID, buffered packets delivered, twice", c.with(c.idle)},
		{"paging fails: Cause 64 with DROBU, then DROP", c.with(c.pagingFails)},
		{"reports that are never answered: repeated, given up, nothing else", c.with(c.unanswered)},
		{"Xn handover with End Marker, N2 handover without", c.with(c.handover)},
		{"released session: Error Indication for its F-TEID", c.released},
		{"restart of the UPF: modifications meet Cause 65, sessions again with their identifiers", c.restarted},
		{"end of the last session", c.end},
	}, nil
}

func (c *sdcore) begin() error {
	if err := c.associate(); err != nil {
		return err
	}
	started, err := c.smf.heartbeat(c.smf.started)
	if err != nil {
		return err
	}
	if !started.Equal(c.upStarted) {
		return fmt.Errorf("Recovery Time Stamp %v in the heartbeat, %v in the association", started, c.upStarted)
	}
	return c.openFence()
}

func (c *sdcore) openFence() error {
	s, err := c.open()
	if err != nil {
		return err
	}
	c.fence, c.fenceSession = &s.UE, s
	return nil
}

func (c *sdcore) byName() error {
	smf, err := newSMF(sgwcAddr)
	if err != nil {
		return err
	}
	defer smf.close()
	other := &sdcore{World: c.World, smf: smf, nodeID: nodeName("smf", "example", "org"), nextUE: 200}
	if err := other.associate(); err != nil {
		return err
	}
	s, err := other.open()
	if err != nil {
		return err
	}
	if err := c.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

func (c *sdcore) basic() error {
	s := c.newSession()
	if err := s.establish(defaultRule()); err != nil {
		return err
	}
	if err := c.server.send(s.v4, uePort, "before the AN tunnel"); err != nil {
		return err
	}
	if err := c.upTo(&s.UE, c.server, 1); err != nil {
		return err
	}
	if err := c.settled(); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := c.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

// gbrRule is a rule for the flow server.
func gbrRule() policyRule {
	return policyRule{number: 2, precedence: 10, qfi: 2, filter: sdfText(flowText), gbr: true}
}

func (c *sdcore) twoRules() error {
	for _, rules := range [][]policyRule{{defaultRule(), gbrRule()}, {gbrRule(), defaultRule()}} {
		s, err := c.open(rules...)
		if err != nil {
			return err
		}
		if err := c.carries(&s.UE, c.flow, 2); err != nil {
			return err
		}
		if err := c.carries(&s.UE, c.server, 1); err != nil {
			return err
		}
		if err := s.release(); err != nil {
			return err
		}
	}
	return nil
}

func (c *sdcore) addressed() error {
	s := c.newSession()
	s.v4 = nil
	if err := s.establish(defaultRule()); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	if err := c.bothWays(&s.UE); err != nil {
		return err
	}
	return s.release()
}

func (c *sdcore) flowAdded(s *sdcoreSession) error {
	r := gbrRule()
	add := func(r policyRule) error {
		_, err := s.modify(
			createPDR(pdrID(r.upPDR()), prec(r.precedence), pdi(source(access), chooseNoFamily(), plainNI(), r.filter),
				tlv(ieOuterHeaderRemoval, hx("0000")), farID(r.upFAR()), qerID(r.number)),
			createPDR(pdrID(r.downPDR()), prec(r.precedence), pdi(source(core), plainNI(), r.filter), farID(r.downFAR()), qerID(r.number)),
			createFAR(farID(r.upFAR()), action(forw1), fp(dest(core), plainNI())),
			createFAR(farID(r.downFAR()), action(buffNocp1)),
			r.createQER())
		if err != nil {
			return err
		}
		_, err = s.modify(updateFAR(farID(r.downFAR()), action(forw1), ufp(dest(access), plainNI(), outerV4(s.down))))
		return err
	}
	if err := add(r); err != nil {
		return err
	}
	if err := c.carries(&s.UE, c.flow, 2); err != nil {
		return err
	}
	if err := c.carries(&s.UE, c.server, 1); err != nil {
		return err
	}
	// A rule without a flow description matches every packet that no earlier rule matches.
	rest := policyRule{number: 3, precedence: 20, qfi: 3, filter: tlv(ieSDFFilter, hx("0000"))}
	if err := add(rest); err != nil {
		return fmt.Errorf("SDF Filter without text: %w", err)
	}
	if err := c.carries(&s.UE, c.flow, 2); err != nil {
		return err
	}
	if err := c.carries(&s.UE, c.server, 3); err != nil {
		return err
	}
	for _, one := range []policyRule{r, rest} {
		if _, err := s.modify(removePDR(pdrID(one.upPDR())), removePDR(pdrID(one.downPDR())), removeFAR(farID(one.upFAR())),
			removeFAR(farID(one.downFAR())), removeQER(qerID(one.number))); err != nil {
			return fmt.Errorf("flow removed: %w", err)
		}
	}
	if err := c.carries(&s.UE, c.flow, 1); err != nil {
		return err
	}
	return c.bothWays(&s.UE)
}

// deactivate makes the UE idle and sends packets, which the UPF reports.
func (s *sdcoreSession) deactivate(count int) ([]string, *parsed, error) {
	if _, err := s.modify(s.updateFARs(buffNocp1, nil, nil)); err != nil {
		return nil, nil, err
	}
	var texts []string
	for range count {
		text := s.text("idle")
		texts = append(texts, text)
		if err := s.server.send(s.v4, uePort, text); err != nil {
			return nil, nil, err
		}
	}
	report, err := s.smf.report(1, s.cp)
	if err != nil {
		return nil, nil, err
	}
	return texts, report, wantDownlinkData(report, s.rules[0].downPDR())
}

func (c *sdcore) idle(s *sdcoreSession) error {
	for range 2 {
		texts, report, err := s.deactivate(2)
		if err != nil {
			return err
		}
		s.answerReport(report, causeAccepted, "00")
		if err := c.settled(); err != nil {
			return fmt.Errorf("before the reactivation: %w", err)
		}
		if err := s.activate(); err != nil {
			return err
		}
		for _, text := range texts {
			if err := s.receives(c.server, s.down.teid, 1, text); err != nil {
				return err
			}
		}
	}
	return c.bothWays(&s.UE)
}

func (c *sdcore) pagingFails(s *sdcoreSession) error {
	_, report, err := s.deactivate(2)
	if err != nil {
		return err
	}
	s.answerReport(report, causeFailure, "01")
	if _, err := s.modify(updateFAR(farID(s.rules[0].downFAR()), action(drop1))); err != nil {
		return err
	}
	if err := c.server.send(s.v4, uePort, "to be dropped"); err != nil {
		return err
	}
	if err := c.settled(); err != nil {
		return err
	}
	if err := s.activate(); err != nil {
		return err
	}
	return c.bothWays(&s.UE)
}

func (c *sdcore) unanswered(s *sdcoreSession) error {
	if err := s.node.errorIndication(upfN3, s.down.teid); err != nil {
		return err
	}
	report, err := c.smf.report(4, s.cp)
	if err != nil {
		return err
	}
	if err := wantIndicated(report, s.down); err != nil {
		return err
	}
	// One transmission, and n1_retries retransmissions.
	if err := c.smf.repeated(report, 4); err != nil {
		return err
	}
	s.down = s.node.tunnel()
	if err := s.activate(); err != nil {
		return err
	}
	if err := c.bothWays(&s.UE); err != nil {
		return err
	}
	return c.idle(s)
}

func (c *sdcore) handover(s *sdcoreSession) error {
	old := s.down
	s.node, s.down = c.target, c.target.tunnel()
	if _, err := s.modify(s.updateFARs(forw1, outerV4(s.down), tlv(ieSMFlags, hx("02")))); err != nil {
		return err
	}
	if err := c.gnb.endMarkers(old.teid, 1); err != nil {
		return err
	}
	if err := c.bothWays(&s.UE); err != nil {
		return err
	}
	// N2: settled would find an unrequested End Marker.
	s.node, s.down = c.gnb, c.gnb.tunnel()
	if _, err := s.modify(s.updateFARs(forw1, outerV4(s.down), nil)); err != nil {
		return err
	}
	return c.bothWays(&s.UE)
}

func (c *sdcore) released() error {
	s, err := c.open()
	if err != nil {
		return err
	}
	if err := s.release(); err != nil {
		return err
	}
	return c.wantDead(&s.UE)
}

func (c *sdcore) restarted() error {
	s, err := c.open()
	if err != nil {
		return err
	}
	c.smf.forget()
	if err := restartUPF(); err != nil {
		return err
	}
	if err := c.smf.awaitRestart(c.upStarted); err != nil {
		return err
	}
	if err := c.associate(); err != nil {
		return err
	}
	// The SMF keeps its sessions, which the UPF does not know.
	answer, err := c.smf.send(session, msgModification, s.seid, s.smf.fSEID(s.cp), s.updateFARs(buffNocp1, nil, nil)).wait()
	if err != nil {
		return err
	}
	if err := answer.cause(causeNotFound); err != nil {
		return err
	}
	for _, one := range []*sdcoreSession{c.fenceSession, s} {
		if err := one.establish(one.rules...); err != nil {
			return err
		}
		if err := one.activate(); err != nil {
			return err
		}
		if err := c.bothWays(&one.UE); err != nil {
			return err
		}
	}
	return s.release()
}

func (c *sdcore) end() error {
	c.fence = nil
	return c.fenceSession.release()
}
