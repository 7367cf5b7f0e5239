//! Starts commands from one thread that lives as long as the node.
//!
//! A command is told to die with its parent, and the kernel takes the *thread* that started it for the parent. Threads of
//! the runtime come and go.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A command and the descriptors that it inherits.
pub(super) struct Launch {
    pub(super) command: Command,
    pub(super) inherited: Vec<OwnedFd>,
}

type Job = (Launch, oneshot::Sender<io::Result<Child>>);

/// The thread. When this is dropped it ends, and takes with it what it started.
#[derive(Debug)]
pub(super) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    /// Must run inside a tokio runtime.
    pub(super) fn new() -> io::Result<Self> {
        let (jobs, received) = mpsc::channel::<Job>();
        let runtime = Handle::current();
        let work = move || {
            let _runtime = runtime.enter();
            for (launch, reply) in received {
                // When nobody waits any more the child is dropped, which kills it.
                let _ = reply.send(spawn(launch));
            }
        };
        std::thread::Builder::new().name("cells-spawner".to_owned()).spawn(work)?;
        Ok(Self { jobs })
    }

    /// Starts the command.
    pub(super) async fn start(&self, launch: Launch) -> io::Result<Child> {
        let (reply, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts commands has ended");
        self.jobs.send((launch, reply)).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}

fn spawn(mut launch: Launch) -> io::Result<Child> {
    // Until here they could not leak into another command; they are closed right after.
    for descriptor in &launch.inherited {
        fcntl_setfd(descriptor.as_fd(), FdFlags::empty())?;
    }
    launch.command.spawn()
}
