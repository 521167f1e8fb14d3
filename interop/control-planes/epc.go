package main

import (
	"fmt"
)

// epcPair is Open5GS with an SGW-U and a PGW-U: its SGW-C, and its SMF as PGW-C.
type epcPair struct {
	*open5gs
	sgwc     *SMF
	fencePDN *pdn
}

// pdn is a PDN connection with one bearer, at both gateways.
type pdn struct {
	*epcPair
	UE
	atPGW *open5gsSession
	// sgwSEID is the session at the SGW-U, sgwPDR its PDR for tunnels of the PGW-U.
	sgwSEID uint64
	sgwPDR  uint16
	// toSGW is the SGW-U's tunnel for the PGW-U.
	toSGW tunnel
}

func epcPairCases(w *World) ([]testCase, error) {
	sgwc, err := newSMF(sgwcAddr)
	if err != nil {
		return nil, err
	}
	smfs, err := newSMFs(smfAddr, anchorN4)
	if err != nil {
		return nil, err
	}
	w.smf = smfs[0]
	userPlane, err := newNode(0, smfAddr)
	if err != nil {
		return nil, err
	}
	if w.server, err = newServer(imsAddr, serverPort); err != nil {
		return nil, err
	}
	e := &epcPair{open5gs: &open5gs{World: w, userPlane: userPlane, nextUE: 1}, sgwc: sgwc}
	return []testCase{
		{"association of SGW-U and PGW-U", e.begin},
		{"attach: traffic both ways through both gateways; release at both", e.basic},
		{"idle: packets buffered at the SGW-U, reported, delivered", e.with(e.idle)},
		{"X2 handover: End Marker of the SGW-U", e.with(e.x2)},
		{"path switch at the PGW-U: its End Marker passes the SGW-U", e.with(e.relocated)},
		{"session gone at the SGW-U: the PGW-U reports the Error Indication", e.indicated},
		{"end of the last session", e.end},
	}, nil
}

func (e *epcPair) begin() error {
	for _, smf := range []*SMF{e.sgwc, e.smf} {
		if _, err := smf.associate(nodeV4(smf.addr), hx("00")); err != nil {
			return err
		}
	}
	c, err := e.open()
	if err != nil {
		return err
	}
	e.fence, e.fencePDN = &c.UE, c
	return nil
}

// modifySGW sends a modification to the SGW-U.
func (c *pdn) modifySGW(ies ...[]byte) (*parsed, error) {
	return c.sgwc.ask(session, msgModification, c.sgwSEID, ies...)
}

// open attaches a UE: first the session of the SGW-U, which buffers, then that of the PGW-U, then the tunnels.
func (e *epcPair) open() (*pdn, error) {
	c := &pdn{epcPair: e, atPGW: e.newSession(4), sgwPDR: 1}
	c.v4, c.node, c.qfi = c.atPGW.v4, e.gnb, noQFI
	answer, err := e.sgwc.ask(session, msgEstablishment, 0, nodeV4(sgwcAddr), e.sgwc.fSEID(c.atPGW.cp),
		createPDR(pdrID(1), sxaPDI(core, typeS5U), farID(1)),
		createPDR(pdrID(2), sxaPDI(access, typeS1U), farID(2)),
		createFAR(farID(1), action(buffNocp2), barID(1)),
		createFAR(farID(2), action(buffNocp2), barID(1)),
		tlv(ieCreateBAR, barID(1)))
	if err != nil {
		return nil, fmt.Errorf("SGW-U: %w", err)
	}
	if c.sgwSEID, err = upSEID(answer, c.atPGW.cp); err != nil {
		return nil, err
	}
	created, _, err := createdPDRs(answer)
	if err != nil {
		return nil, err
	}
	fromPGW, fromENB := created[1], created[2]
	if fromPGW == nil || fromENB == nil || !fromPGW.IPv4Address.Equal(upfN9) || !fromENB.IPv4Address.Equal(upfN3) {
		return nil, fmt.Errorf("F-TEIDs %+v, %+v of the SGW-U", fromPGW, fromENB)
	}
	c.toSGW, c.up = tunnel{fromPGW.TEID, fromPGW.IPv4Address}, tunnel{fromENB.TEID, fromENB.IPv4Address}
	c.atPGW.down = c.toSGW
	if err := c.atPGW.establishPDN(); err != nil {
		return nil, fmt.Errorf("PGW-U: %w", err)
	}
	for id, fteid := range c.atPGW.fteids {
		if !fteid.IPv4Address.Equal(anchorN9) {
			return nil, fmt.Errorf("F-TEID %+v of PDR %d, not one of %v", fteid, id, anchorN9)
		}
	}
	if _, err := c.modifySGW(known(2, core, c.atPGW.UE.up, typeS5U)); err != nil {
		return nil, err
	}
	return c, c.forward(e.gnb)
}

// forward sets a tunnel of the eNB, with End Markers on the former one if there are flags.
func (c *pdn) forward(node *Node, flags ...byte) error {
	c.node, c.down = node, node.tunnel()
	_, err := c.modifySGW(known(1, access, c.down, typeS1U, flags...))
	return err
}

func (c *pdn) releaseSGW() error {
	_, err := c.sgwc.ask(session, msgDeletion, c.sgwSEID)
	return err
}

func (c *pdn) releasePGW() error {
	_, err := c.smf.ask(session, msgDeletion, c.atPGW.up)
	return err
}

func (c *pdn) release() error {
	if err := c.releaseSGW(); err != nil {
		return err
	}
	return c.releasePGW()
}

// with runs a case with a PDN connection and releases it.
func (e *epcPair) with(run func(*pdn) error) func() error {
	return func() error {
		c, err := e.open()
		if err != nil {
			return err
		}
		if err := run(c); err != nil {
			return err
		}
		return c.release()
	}
}

func (e *epcPair) basic() error {
	c, err := e.open()
	if err != nil {
		return err
	}
	if err := e.bothWays(&c.UE); err != nil {
		return err
	}
	if err := c.release(); err != nil {
		return err
	}
	return e.wantDead(&c.UE)
}

func (e *epcPair) idle(c *pdn) error {
	if _, err := c.modifySGW(idleFARs(1)); err != nil {
		return err
	}
	texts := []string{e.text("idle"), e.text("idle"), e.text("idle")}
	for _, text := range texts {
		if err := e.server.send(c.v4, uePort, text); err != nil {
			return err
		}
	}
	report, err := e.sgwc.report(1, c.atPGW.cp)
	if err != nil {
		return err
	}
	if err := wantDownlinkData(report, c.sgwPDR); err != nil {
		return err
	}
	e.sgwc.answer(report, session, c.sgwSEID, tlv(ieCause, []byte{causeAccepted}))
	if err := e.settled(); err != nil {
		return fmt.Errorf("before the service request: %w", err)
	}
	if err := c.forward(e.gnb); err != nil {
		return err
	}
	for _, text := range texts {
		if err := c.receives(e.server, c.down.teid, noQFI, text); err != nil {
			return err
		}
	}
	return e.bothWays(&c.UE)
}

func (e *epcPair) x2(c *pdn) error {
	for _, target := range []*Node{e.target, e.gnb} {
		source, old := c.node, c.down
		if err := c.forward(target, 2); err != nil {
			return err
		}
		if err := source.endMarkers(old.teid, 1); err != nil {
			return err
		}
		if err := e.bothWays(&c.UE); err != nil {
			return err
		}
	}
	return nil
}

// relocated gives the SGW-U another tunnel for the PGW-U.
func (e *epcPair) relocated(c *pdn) error {
	answer, err := c.modifySGW(createPDR(pdrID(3), sxaPDI(core, typeS5U), removeAnyGTPU(), farID(1)))
	if err != nil {
		return err
	}
	created, _, err := createdPDRs(answer)
	if err != nil || created[3] == nil {
		return fmt.Errorf("no Created PDR 3 (%v)", err)
	}
	c.toSGW = tunnel{created[3].TEID, created[3].IPv4Address}
	if _, err := c.atPGW.modify(updateFAR(farID(1), action(forw2), ufp(dest(access), ni(), outerV4(c.toSGW),
		tlv(ieSMFlags, []byte{2}), interfaceType(typeN3)))); err != nil {
		return fmt.Errorf("PGW-U: %w", err)
	}
	if err := c.node.endMarkers(c.down.teid, 1); err != nil {
		return fmt.Errorf("End Marker of the PGW-U: %w", err)
	}
	if _, err := c.modifySGW(removePDR(pdrID(1))); err != nil {
		return err
	}
	return e.bothWays(&c.UE)
}

func (e *epcPair) indicated() error {
	c, err := e.open()
	if err != nil {
		return err
	}
	if err := c.releaseSGW(); err != nil {
		return err
	}
	if err := e.server.send(c.v4, uePort, "for nobody"); err != nil {
		return err
	}
	if err := reports(e.smf, c.atPGW.cp, c.atPGW.up, c.toSGW); err != nil {
		return err
	}
	return c.releasePGW()
}

func (e *epcPair) end() error {
	e.fence = nil
	return e.fencePDN.release()
}
