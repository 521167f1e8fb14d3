//! SIGHUP: the same as `adit reload`, with the outcome in the log.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use tracing::{info, warn};

use crate::admin::{AdminAct, AdminAnswer, AdminCommand, AdminQuery, AnswerSink, PageCursor};
use crate::log::audit::{self, AuditActor};
use crate::run::service_manager::ServiceManager;

/// Reloads that signals request, one at a time.
#[derive(Default)]
pub(crate) struct SignaledReload {
    /// Receives the answer to the reload that is under way.
    awaited: Option<Receiver<AdminAnswer>>,
    /// True if a signal came during that reload.
    is_wanted: bool,
}

impl SignaledReload {
    /// Logs the answer to a reload that is done, and starts the next one if a signal came. The
    /// service manager is notified before and after each reload.
    pub(crate) fn turn(
        &mut self,
        is_signaled: bool,
        queries: &Sender<AdminQuery>,
        manager: &mut ServiceManager,
    ) {
        self.is_wanted |= is_signaled;
        if let Some(awaited) = &self.awaited {
            match awaited.try_recv() {
                Err(TryRecvError::Empty) => return,
                answered => log(answered.ok()),
            }
            self.awaited = None;
            manager.ready();
        }
        if std::mem::take(&mut self.is_wanted) {
            let (answer, awaited) = channel();
            // When adit ends, there is no receiver any more, and the answer is dropped.
            let answer: AnswerSink = Box::new(move |answered| drop(answer.send(answered)));
            let (command, cursor) = (AdminCommand::Act(AdminAct::Reload), PageCursor::default());
            manager.reloading();
            // If the control thread is gone, the query is dropped, and `awaited` is disconnected.
            let _ = queries.send(AdminQuery { command, cursor, answer });
            self.awaited = Some(awaited);
        }
    }
}

/// Logs the outcome, with an audit line.
fn log(answer: Option<AdminAnswer>) {
    let actor = AuditActor { who: "SIGHUP".to_owned(), role: "owner" };
    let word = AdminAct::Reload.word();
    let refused = match answer {
        Some(AdminAnswer::Page(page)) => {
            audit::record(&actor, word, None, Ok(()));
            let members = (page.members)();
            let outcome = members.get("outcome").and_then(serde_json::Value::as_str);
            return info!(outcome, "configuration reloaded");
        }
        Some(
            AdminAnswer::Refused(why)
            | AdminAnswer::RefusedKeys(why, _)
            | AdminAnswer::Unknown(why),
        ) => why,
        Some(AdminAnswer::Stream(_)) | None => "adit is shutting down".to_owned(),
    };
    audit::record(&actor, word, None, Err(&refused));
    warn!(why = refused, "configuration not reloaded");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::liveness::Liveness;

    #[test]
    fn signals_during_a_reload_ask_for_one_more() {
        let (queries, questions) = channel();
        let mut manager = ServiceManager::of_environment(Liveness::default());
        let mut reload = SignaledReload::default();
        reload.turn(false, &queries, &mut manager);
        assert!(questions.try_recv().is_err(), "no signal came");
        reload.turn(true, &queries, &mut manager);
        let first = questions.try_recv().unwrap();
        assert_eq!(first.command, AdminCommand::Act(AdminAct::Reload));
        for _ in 0..3 {
            reload.turn(true, &queries, &mut manager);
        }
        assert!(questions.try_recv().is_err(), "the first one is under way");
        (first.answer)(AdminAnswer::done("nothing changed"));
        reload.turn(false, &queries, &mut manager);
        let second = questions.try_recv().unwrap();
        drop(second.answer);
        reload.turn(false, &queries, &mut manager);
        assert!(questions.try_recv().is_err(), "that was the last one");
    }
}
