//! Connects to the broker, and explains its refusals to the user.

use tenure_client::{Client, ClientBuilder, Code, Error, Refusal};

use crate::args::Global;
use crate::exit::{self, Failure};

/// Runs a verb that talks to a broker.
pub(crate) fn with_broker<T>(
    global: &Global,
    verb: impl AsyncFnOnce(Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    block_on(async {
        let client = connect(global).await?;
        verb(client).await
    })
}

/// Runs what waits for the network. A verb needs no more than one thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot start the async runtime: {error}")))?;
    let outcome = runtime.block_on(work);
    // A helper thread may still block on stdin; the program does not wait for it.
    runtime.shutdown_background();
    outcome
}

pub(crate) async fn connect(global: &Global) -> Result<Client, Failure> {
    Ok(builder(global).connect().await?)
}

/// Connects to the member of a group that is addressed, also if another one leads.
pub(crate) async fn connect_to_member(global: &Global) -> Result<Client, Failure> {
    Ok(builder(global).stay_at_member().connect().await?)
}

fn builder(global: &Global) -> ClientBuilder {
    let mut builder = Client::builder()
        .address(&global.broker)
        .software(concat!("tenure ", env!("CARGO_PKG_VERSION")))
        .identity(identity())
        .connect_timeout(global.connect_timeout);
    if let Some(namespace) = &global.namespace {
        builder = builder.namespace(namespace.as_str());
    }
    if let Some(key) = &global.key {
        builder = builder.key(key.reveal());
    }
    builder
}

/// The name under which this person's submissions can be watched: the same tomorrow.
fn identity() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    user.unwrap_or_else(|| "cli".to_owned())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match &error {
            Error::Refused(refusal) => Failure::from(&**refusal),
            Error::Unreachable { addresses, waited, last } => Failure::new(
                exit::UNREACHABLE,
                format!(
                    "no broker answered at {addresses} within {} s: {last}\n\
                     Start one with `tenure serve`, or say where it is with --broker or TENURE_BROKER",
                    waited.as_secs_f32()
                ),
            ),
            Error::UnknownOutcome { .. }
            | Error::Lost { .. }
            | Error::NotListening { .. }
            | Error::Protocol { .. } => Failure::new(exit::UNREACHABLE, error.to_string()),
            Error::BadAddress { .. } | Error::BadSetting { .. } => Failure::usage(error.to_string()),
            Error::TooLarge { .. } => Failure::input(error.to_string()),
            Error::Closed => Failure::internal(error.to_string()),
            _ => Failure::internal(error.to_string()),
        }
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Failure {
        let code = code_of(&refusal.code);
        let hint = match &refusal.code {
            Code::NotAllowed => {
                "\nPass a key with this right in TENURE_KEY, with --key-file FILE, or with --key ask"
            }
            Code::UnknownTask => "\n`tenure list --all` shows the tasks that are kept",
            Code::UnknownName => "\n`tenure list --all` shows the names of the tasks that are kept",
            Code::UnknownWorker => "\n`tenure workers --all` shows the workers that are known",
            Code::UnknownQueue => "\n`tenure queues` shows the queues that are known",
            Code::UnknownSchedule => "\n`tenure schedules` shows the schedules",
            Code::UnknownHook => "\n`tenure hooks` shows the hooks",
            _ => "",
        };
        Failure::new(code, format!("the broker refuses: {refusal}{hint}"))
    }
}

/// The exit code of a refusal.
pub(crate) fn code_of(code: &Code) -> u8 {
    match code {
        Code::Full
        | Code::DiskFull
        | Code::Draining
        | Code::JournalAway
        | Code::Deposed
        | Code::Elsewhere
        | Code::TooSlow => exit::TRY_LATER,
        Code::NotAllowed => exit::NOT_ALLOWED,
        _ => exit::REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_now_differs_from_one_for_good() {
        assert_eq!(code_of(&Code::Draining), exit::TRY_LATER);
        assert_eq!(code_of(&Code::Full), exit::TRY_LATER);
        assert_eq!(code_of(&Code::DiskFull), exit::TRY_LATER);
        assert_eq!(code_of(&Code::JournalAway), exit::TRY_LATER);
        assert_eq!(code_of(&Code::NotAllowed), exit::NOT_ALLOWED);
        assert_eq!(code_of(&Code::UnknownTask), exit::REFUSED);
    }
}
