//! The person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Lines that a person types.
pub(crate) struct Terminal {
    /// From the thread that reads; it starts with the first question and ends with the program.
    lines: Option<UnboundedReceiver<Option<String>>>,
}

impl Terminal {
    /// The terminal, if there is one to ask on and to be answered from.
    pub(crate) fn open() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self { lines: None })
    }

    /// Forgets what was typed before the question: it cannot be meant as its answer.
    pub(crate) fn discard(&mut self) {
        // Fails only when the terminal is gone; the next line then is the end of the input.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        while self.receiver().try_recv().is_ok() {}
    }

    /// The next line, without its end; `None` at the end of the input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.receiver().recv().await.flatten()
    }

    /// What is typed is not shown until the result is dropped.
    pub(crate) fn hide(&self) -> Option<Hidden> {
        Hidden::on(io::stdin().as_fd().try_clone_to_owned().ok()?).ok()
    }

    fn receiver(&mut self) -> &mut UnboundedReceiver<Option<String>> {
        self.lines.get_or_insert_with(|| {
            let (sender, receiver) = unbounded_channel();
            std::thread::spawn(move || {
                let mut lines = io::stdin().lock().lines();
                while let Some(Ok(line)) = lines.next() {
                    if sender.send(Some(line)).is_err() {
                        return;
                    }
                }
                // Nobody may be left to hear of the end.
                let _ = sender.send(None);
            });
            receiver
        })
    }
}

/// Hides what is typed.
pub(crate) struct Hidden {
    terminal: OwnedFd,
    before: Termios,
}

impl Hidden {
    fn on(terminal: OwnedFd) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Now, &hidden)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Fails only when the terminal is gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn what_is_typed_is_hidden_until_the_answer_is_there() {
        let other_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&other_end).unwrap();
        unlockpt(&other_end).unwrap();
        let name = ptsname(&other_end, Vec::new()).unwrap();
        let terminal = std::fs::File::open(name.to_str().unwrap()).unwrap();
        let shows = || tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO);
        assert!(shows());
        let hidden = Hidden::on(terminal.try_clone().unwrap().into()).unwrap();
        assert!(!shows());
        drop(hidden);
        assert!(shows());
    }
}
