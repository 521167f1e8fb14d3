//! RESP in octets, and connections without sockets.

mod codec;
mod connection;
