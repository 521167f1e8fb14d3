package main

import (
	"fmt"
	"net"
	"time"
)

// Server is a UDP socket in the data network. The kernel there answers pings.
type Server struct {
	addr  *net.UDPAddr
	conn  *net.UDPConn
	inbox chan *datagram
}

// datagram is a datagram that a server received.
type datagram struct {
	from *net.UDPAddr
	text string
}

func newServer(ip net.IP, port int) (*Server, error) {
	network := "udp6"
	if ip.To4() != nil {
		network = "udp4"
	}
	addr := &net.UDPAddr{IP: ip, Port: port}
	conn, err := net.ListenUDP(network, addr)
	if err != nil {
		return nil, err
	}
	s := &Server{addr, conn, make(chan *datagram, inboxSize)}
	go s.read()
	return s, nil
}

func (s *Server) read() {
	for {
		buffer := make([]byte, pfcpDatagramMax)
		n, from, err := s.conn.ReadFromUDP(buffer)
		if err != nil {
			if isClosed(err) {
				return
			}
			continue
		}
		s.inbox <- &datagram{from, string(buffer[:n])}
	}
}

// send sends a datagram to a UE.
func (s *Server) send(to net.IP, port int, text string) error {
	_, err := s.conn.WriteToUDP([]byte(text), &net.UDPAddr{IP: to, Port: port})
	return err
}

// expect checks that the next datagram is this one.
func (s *Server) expect(from net.IP, text string) error {
	select {
	case got := <-s.inbox:
		if !got.from.IP.Equal(from) || got.text != text {
			return fmt.Errorf("in the data network %q of %v, not %q of %v", got.text, got.from, text, from)
		}
		return nil
	case <-time.After(arrivalTimeout):
		return fmt.Errorf("%q of %v does not arrive in the data network", text, from)
	}
}

// quiet checks that no further datagram has arrived.
func (s *Server) quiet() error {
	select {
	case got := <-s.inbox:
		return fmt.Errorf("in the data network arrived unexpectedly %q of %v", got.text, got.from)
	default:
		return nil
	}
}
