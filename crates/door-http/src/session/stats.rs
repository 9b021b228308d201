//! The broker's figures over a session that asks for nothing else.

use tenure_hub::{Ask, Delivery, Request, Response, Session, Stats};

/// The broker's figures, unless it stops.
pub(crate) async fn ask_stats(session: &Session) -> Option<Box<Stats>> {
    session.send(vec![Ask { token: 0, request: Request::Stats }]).await.ok()?;
    let mut arrived = Vec::new();
    loop {
        session.mailbox().arrived().await;
        let is_closed = session.mailbox().is_closed();
        session.mailbox().take(&mut arrived);
        for delivery in arrived.drain(..) {
            match delivery {
                Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } => return Some(stats),
                Delivery::Reply { .. } | Delivery::Goodbye | Delivery::Ended(_) => return None,
                // This session has asked for nothing else.
                Delivery::Notice(_)
                | Delivery::Event { .. }
                | Delivery::Gap { .. }
                | Delivery::Live { .. }
                | Delivery::Call { .. }
                | Delivery::CallAnswered { .. }
                | Delivery::CallGivenUp { .. }
                | Delivery::Broadcast(_) => {}
            }
        }
        if is_closed {
            return None;
        }
    }
}
