//! The program of one port, which is attached to the port's device, or run on single frames.

use core::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use adit_types::PortId;
use libbpf_rs::{Link, MapCore, MapFlags, Object, Program, ProgramInput, Xdp, XdpFlags};

use crate::config::XdpError;

/// The program of one port.
pub struct XdpProgram {
    /// The port.
    pub port: PortId,
    pub(crate) object: Object,
    /// The attachment. It ends with the process at the latest; the device then has no program.
    pub(crate) link: Option<Link>,
    /// The device, and the program that passed its packets to the AF_XDP sockets before.
    pub(crate) former: Option<(i32, OwnedFd)>,
}

impl fmt::Debug for XdpProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpProgram").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The verdict of the program on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpVerdict {
    /// The frame was changed, and leaves through another port or its own.
    Forwarded,
    /// A worker receives the frame.
    Passed,
    /// The kernel drops the frame: the program has a defect.
    Aborted,
}

impl XdpProgram {
    /// Replaces one value of a map.
    pub(crate) fn update(&self, name: &str, key: u32, value: &[u8]) -> Result<(), XdpError> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| XdpError(format!("no map {name}")))?;
        map.update(&key.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(|error| XdpError::of(&format!("map {name} cannot be written"), &error))
    }

    /// Attaches the program to a network device, in place of the program that the driver of the
    /// AF_XDP sockets has attached. `sockets`: the socket of each queue of the device.
    ///
    /// # Errors
    /// The driver of the device has no native XDP, or the kernel refuses. The caller must then call
    /// [`XdpProgram::detach`].
    pub fn attach(
        &mut self,
        device: u32,
        sockets: &[(u32, BorrowedFd<'_>)],
    ) -> Result<(), XdpError> {
        for (queue, socket) in sockets {
            let fd = u32::try_from(socket.as_raw_fd()).unwrap_or_default();
            self.update("xsks_map", *queue, &fd.to_ne_bytes())?;
        }
        let device = i32::try_from(device).unwrap_or_default();
        let program = self.object.progs_mut().next();
        let program = program.ok_or_else(|| XdpError("no program".into()))?;
        let xdp = Xdp::new(program.as_fd());
        let state = || {
            xdp.query(device, XdpFlags::NONE)
                .map_err(|error| XdpError::of("the XDP program cannot be found", &error))
        };
        let former = state()?;
        if former.prog_id != 0 {
            require_native(&former)?;
            let fd = Program::fd_from_id(former.prog_id)
                .map_err(|error| XdpError::of("the driver's XDP program cannot be kept", &error))?;
            xdp.detach(device, XdpFlags::NONE)
                .map_err(|error| XdpError::of("the driver's XDP program stays", &error))?;
            self.former = Some((device, fd));
        }
        let link = program
            .attach_xdp(device)
            .map_err(|error| XdpError::of("the XDP program cannot be attached", &error))?;
        self.link = Some(link);
        require_native(&state()?)
    }

    /// Attaches the program again that the device had before [`XdpProgram::attach`].
    ///
    /// # Errors
    /// The kernel refuses that program: the AF_XDP sockets of the device then receive no packets.
    pub fn detach(&mut self) -> Result<(), XdpError> {
        self.link = None;
        let Some((device, former)) = self.former.take() else { return Ok(()) };
        Xdp::new(former.as_fd()).attach(device, XdpFlags::NONE).map_err(|error| {
            XdpError::of("the driver's XDP program cannot be attached again", &error)
        })
    }

    /// Runs the program on a frame, without a network device.
    ///
    /// # Errors
    /// The kernel's.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<(XdpVerdict, Vec<u8>), XdpError> {
        let program = self.object.progs_mut().next();
        let program = program.ok_or_else(|| XdpError("no program".into()))?;
        // Leaves room for the headers of a tunnel.
        let mut out = vec![0; frame.len() + 256];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let run = program.test_run(input);
        let run = run.map_err(|error| XdpError::of("the program cannot be run", &error))?;
        let len = run.data.map_or(0, |data| data.len());
        let verdict = run.return_value;
        out.truncate(len);
        let verdict = match verdict {
            libbpf_rs::libbpf_sys::XDP_PASS => XdpVerdict::Passed,
            libbpf_rs::libbpf_sys::XDP_REDIRECT => XdpVerdict::Forwarded,
            _ => XdpVerdict::Aborted,
        };
        Ok((verdict, out))
    }
}

/// Returns an error if the program of a device runs in the kernel above the driver.
fn require_native(state: &libbpf_rs::libbpf_sys::bpf_xdp_query_opts) -> Result<(), XdpError> {
    match u32::from(state.attach_mode) {
        libbpf_rs::libbpf_sys::XDP_ATTACHED_DRV => Ok(()),
        _ => Err(XdpError("the driver of the device has no native XDP".into())),
    }
}
