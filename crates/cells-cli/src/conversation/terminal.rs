//! The person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _};

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
        let before = tcgetattr(io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Hidden(before))
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
pub(crate) struct Hidden(Termios);

impl Drop for Hidden {
    fn drop(&mut self) {
        // Fails only when the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
