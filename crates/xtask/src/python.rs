//! `cargo xtask python`: the Python SDK, built as a wheel, installed as a user would, and tested.

mod other_versions;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::glibc;
use crate::place::Workspace;
use crate::process::{announce, cargo, line_of, path_with, program, run};
use crate::steps::Steps;
use crate::third_party::{self, ThirdParty, environment};

/// From the folder of the SDK.
const EXAMPLES: &str = "../../examples/python/sdk";
const REQUIREMENTS: &str = concat!(
    include_str!("../../../sdk/python/requirements-dev.txt"),
    include_str!("../../../sdk/python/requirements-aiida.txt")
);
/// From the folder of the SDK.
const AIIDA_TESTS: &str = "tests/aiida";
/// The versions of aiida-core before the pinned one. A few stories run with the newest release of each.
const EARLIER_AIIDA: [(&str, &str); 3] =
    [("2.6", "python: aiida-core 2.6"), ("2.7", "python: aiida-core 2.7"), ("2.8", "python: aiida-core 2.8")];
/// From the folder of the SDK. Here is the plugin of pytest that puts Tenure in the place of RabbitMQ.
const UPSTREAM_PLUGIN: (&str, &str) = ("tests/upstream", "on_tenure");
const EARLIER_TESTS: [&str; 2] = ["tests/aiida/test_broker.py", "tests/aiida/test_faults.py"];

/// Build the wheel of the Python SDK, install it, check its types and style, run its tests
///
/// `cargo xtask test` does this by itself, without the tests that take long. The environment lies
/// beside the build, in target/python.
///
///     cargo xtask python                     what `cargo xtask test` runs
///     cargo xtask python --long              the tests that take long as well, and a smoke test with every other
///                                            version of Python that is found
///     cargo xtask python --versions          only that smoke test
///     cargo xtask python --aiida             all tests with a real AiiDA, and a few with earlier versions of it
///     cargo xtask python -- -k fork -x       arguments for pytest
///     cargo xtask python --upstream ~/plumpy -- tests/rmq    the tests of a checkout of kiwipy, plumpy or
///                                            aiida-core, with Tenure in the place of RabbitMQ
///     cargo xtask python --wheel             only the wheel, for release, into target/python/wheels
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Python {
    /// Run the tests that take long as well
    #[arg(long)]
    long: bool,
    /// Run a smoke test with every other version of Python that is found, and nothing else
    #[arg(long, conflicts_with = "long")]
    versions: bool,
    /// Run the tests with a real AiiDA alone, those that take long as well
    #[arg(long, conflicts_with_all = ["long", "versions"])]
    aiida: bool,
    /// Only build the wheel, with the release profile
    #[arg(long, conflicts_with_all = ["long", "versions", "aiida"])]
    wheel: bool,
    /// Run the tests of a checkout of kiwipy, plumpy or aiida-core with Tenure in the place of RabbitMQ
    #[arg(long, value_name = "CHECKOUT", conflicts_with_all = ["long", "versions", "aiida", "wheel"])]
    upstream: Option<PathBuf>,
    /// Arguments for pytest
    #[arg(last = true, value_name = "PYTEST")]
    pytest: Vec<String>,
}

impl Python {
    /// What `cargo xtask test` runs.
    pub(crate) fn short() -> Python {
        Python {
            long: false,
            versions: false,
            aiida: false,
            wheel: false,
            upstream: None,
            pytest: Vec::new(),
        }
    }

    /// What `cargo xtask test aiida` runs.
    pub(crate) fn aiida() -> Python {
        Python { aiida: true, ..Python::short() }
    }

    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        let mut steps = Steps::default();
        if self.wheel {
            steps.run("python: wheel", "cargo xtask python --wheel", || {
                let broker = glibc::build_broker(place, "release")?;
                println!("{}", wheel(place, &broker, "release")?.display());
                Ok(())
            });
            return Ok(steps.report());
        }
        let counts = match &self.upstream {
            Some(checkout) => upstream(&mut steps, place, checkout, &self.pytest),
            None => self.take(&mut steps, place),
        };
        let code = steps.report();
        println!("{} passed, {} failed", counts.passed, counts.failed);
        Ok(code)
    }

    /// The steps, for this verb and for `test`.
    pub(crate) fn take(self, steps: &mut Steps, place: &Workspace) -> Counts {
        const REPEAT: &str = "cargo xtask python";
        let sdk = place.root.join("sdk").join("python");
        let mut python = None;
        steps.run("python: environment", REPEAT, || {
            python = Some(environment(&place.python(), REQUIREMENTS)?);
            Ok(())
        });
        let Some(python) = python else { return Counts::default() };
        let mut wheel = None;
        steps.run("python: wheel", REPEAT, || {
            let built = build(place, &sdk, &python, "dev")?;
            install(&python, &sdk, &built)?;
            wheel = Some(built);
            Ok(())
        });
        let Some(wheel) = wheel else { return Counts::default() };
        if self.versions {
            other_versions::test(steps, place, &sdk, &wheel, &python);
            return Counts::default();
        }
        steps.run("python: style", REPEAT, || {
            for check in [["check"].as_slice(), &["format", "--check"]] {
                let mut ruff = program(&python, &sdk);
                ruff.args(["-m", "ruff"]).args(check).args(["--config", "pyproject.toml", ".", EXAMPLES]);
                run(&mut ruff)?;
            }
            run(program(&python, &sdk).args(["-m", "mypy"]))
        });
        // The long tests compare figures with those of third-party clients.
        let third_party = if self.long { third_party::prepare(steps, place) } else { ThirdParty::default() };
        let mut counts = Counts::default();
        steps.run("python: tests", REPEAT, || {
            let mut pytest = program(&python, &sdk);
            pytest.args(["-m", "pytest", "--color=no"]);
            if self.aiida {
                // A line for each test: they take minutes.
                pytest.args(["-vv", AIIDA_TESTS]);
            } else if !self.long {
                pytest.args(["-m", "not long"]);
            }
            pytest.args(&self.pytest).envs(third_party.variables());
            stream(&mut pytest, &mut counts)
        });
        if self.long && self.pytest.is_empty() {
            other_versions::test(steps, place, &sdk, &wheel, &python);
        }
        if self.aiida && self.pytest.is_empty() {
            for (version, step) in EARLIER_AIIDA {
                steps
                    .run(step, "cargo xtask test aiida", || earlier_aiida(place, &sdk, version, &mut counts));
            }
        }
        counts
    }
}

/// What pytest said of its tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Runs a few stories with an earlier version of aiida-core, in an environment of its own.
fn earlier_aiida(place: &Workspace, sdk: &Path, version: &str, counts: &mut Counts) -> Result<()> {
    let folder = place.python().join(format!("aiida-{version}"));
    // pgsu, which earlier versions need, has no wheel.
    let packages = format!("--no-binary pgsu\naiida-core=={version}.*\nmsgpack\npytest\npytest-timeout\n");
    let python = environment(&folder, &packages)?;
    install(&python, sdk, &only_wheel(place)?)?;
    let mut own = Counts::default();
    let mut pytest = program(&python, sdk);
    pytest.args(["-m", "pytest", "--color=no", "-vv"]).args(EARLIER_TESTS);
    let passed = stream(&mut pytest, &mut own);
    counts.add(&own);
    passed
}

/// Runs the tests of a checkout, which is installed with what its tests need in an environment of its own.
fn upstream(steps: &mut Steps, place: &Workspace, checkout: &Path, arguments: &[String]) -> Counts {
    const REPEAT: &str = "cargo xtask python --upstream CHECKOUT";
    let mut counts = Counts::default();
    steps.run("python: upstream", REPEAT, || {
        let checkout = checkout.canonicalize().with_context(|| format!("no {}", checkout.display()))?;
        let name = checkout.file_name().context("the checkout is a folder with a name")?.to_string_lossy();
        let sdk = place.root.join("sdk").join("python");
        let wheel = build(place, &sdk, &environment(&place.python(), REQUIREMENTS)?, "dev")?;
        // Some of these have no wheels.
        let needs = format!(
            "--only-binary :none:\n--editable {}[rmq,tests]\nmsgpack\nshortuuid\npytest-timeout\n",
            checkout.display()
        );
        let python = environment(&place.python().join(format!("upstream-{name}")), &needs)?;
        install(&python, &sdk, &wheel)?;
        let (folder, plugin) = UPSTREAM_PLUGIN;
        let mut pytest = program(&python, &checkout);
        // Tests start `verdi` by its name.
        pytest.env("PYTHONPATH", sdk.join(folder)).env("PATH", path_with(&python)?);
        pytest.args(["-m", "pytest", "--color=no", "-p", plugin]).args(arguments);
        stream(&mut pytest, &mut counts)
    });
    counts
}

/// `cargo xtask bench python`: the figures of a release build.
pub(crate) fn bench(place: &Workspace, arguments: &[String]) -> Result<ExitCode> {
    let mut steps = Steps::default();
    let third_party = third_party::prepare(&mut steps, place);
    steps.run("python: figures", "cargo xtask bench python", || {
        let sdk = place.root.join("sdk").join("python");
        let python = environment(&place.python(), REQUIREMENTS)?;
        install(&python, &sdk, &build(place, &sdk, &python, "release")?)?;
        run(program(&python, &sdk)
            .arg("benches/figures.py")
            .args(arguments)
            .envs(third_party.variables())
            .env("TENURE_BINARY", place.broker_of("release")))
    });
    Ok(steps.report())
}

/// The wheel of a release, with this broker in it. It installs where the broker and [`glibc::OLDEST`] run. Returns where
/// it is.
pub(crate) fn wheel(place: &Workspace, broker: &Path, profile: &str) -> Result<PathBuf> {
    let sdk = place.root.join("sdk").join("python");
    let python = glibc::tools(place)?;
    // Two thirds of the size are line tables, which are of no use without the sources.
    run(program("strip", &sdk).args(["--strip-debug", "-o"]).arg(inside(&sdk)?).arg(broker))?;
    let needs = glibc::needed(broker)?.max(glibc::OLDEST);
    let wheels = empty_wheels(place)?;
    let mut maturin = program(&python, &sdk);
    maturin.args(["-m", "maturin", "build", "--quiet", "--profile", profile, "--strip", "--zig"]);
    maturin.arg("--target").arg(glibc::target()).arg("--compatibility").arg(needs.wheel_tag());
    run(maturin.env("PATH", path_with(&python)?).arg("--out").arg(&wheels))?;
    only_wheel(place)
}

fn install(python: &Path, sdk: &Path, wheel: &Path) -> Result<()> {
    run(program(python, sdk)
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"])
        .arg(wheel))
}

/// Builds the wheel with the broker in it. For the dev profile, what is there from the build of the workspace is used.
fn build(place: &Workspace, sdk: &Path, python: &Path, profile: &str) -> Result<PathBuf> {
    run(cargo(&place.root).args(["build", "--quiet", "--package", "tenure", "--profile", profile]))?;
    let broker = place.broker_of(profile);
    if profile == "dev" {
        put_inside(sdk, &broker)?;
    } else {
        // Two thirds of the size are line tables, which are of no use without the sources.
        run(program("strip", sdk).args(["--strip-debug", "-o"]).arg(inside(sdk)?).arg(&broker))?;
    }
    pack(place, sdk, python, profile)
}

fn put_inside(sdk: &Path, broker: &Path) -> Result<()> {
    fs::copy(broker, inside(sdk)?).context("cannot copy the broker")?;
    Ok(())
}

/// Where maturin finds the broker.
fn inside(sdk: &Path) -> Result<PathBuf> {
    let scripts = sdk.join("tenure.data").join("scripts");
    fs::create_dir_all(&scripts).with_context(|| format!("cannot make {}", scripts.display()))?;
    Ok(scripts.join("tenure"))
}

/// Makes the wheel.
fn pack(place: &Workspace, sdk: &Path, python: &Path, profile: &str) -> Result<PathBuf> {
    let wheels = empty_wheels(place)?;
    let mut maturin = program(python, sdk);
    maturin.args(["-m", "maturin", "build", "--quiet", "--profile", profile]);
    if profile == "dev" {
        // Compressing a temporary wheel takes longer than writing it.
        maturin.args(["--compression-method", "stored"]);
    } else {
        maturin.arg("--strip");
    }
    run(maturin.arg("--out").arg(&wheels))?;
    only_wheel(place)
}

/// Where wheels go; there is none after this.
fn empty_wheels(place: &Workspace) -> Result<PathBuf> {
    let wheels = place.python().join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).with_context(|| format!("cannot empty {}", wheels.display()))?;
    }
    Ok(wheels)
}

/// The wheel that was built last.
fn only_wheel(place: &Workspace) -> Result<PathBuf> {
    let wheels = place.python().join("wheels");
    let mut found = fs::read_dir(&wheels).with_context(|| format!("no wheel in {}", wheels.display()))?;
    let wheel = found.next().context("maturin has made no wheel")?;
    Ok(wheel.context("cannot list the wheels")?.path())
}

impl Counts {
    fn add(&mut self, more: &Counts) {
        self.passed += more.passed;
        self.failed += more.failed;
    }
}

/// Runs pytest, passing its output through and counting in it.
fn stream(command: &mut Command, counts: &mut Counts) -> Result<()> {
    announce(command);
    let line = line_of(command);
    // Python keeps what it prints into a pipe until there is much of it.
    command.env("PYTHONUNBUFFERED", "1");
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start pytest")?;
    let output = BufReader::new(child.stdout.take().context("pytest has no output")?);
    let mut out = std::io::stdout().lock();
    for said in output.lines() {
        let said = said.context("cannot read what pytest says")?;
        writeln!(out, "{said}")?;
        if let Some(told) = summary(&said) {
            *counts = told;
        }
    }
    let status = child.wait().context("cannot wait for pytest")?;
    if !status.success() {
        counts.failed = counts.failed.max(1);
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// `2 failed, 40 passed, 3 deselected in 12.34s`: its last line.
fn summary(line: &str) -> Option<Counts> {
    let line = line.trim_matches(['=', ' ']);
    let (told, _) = line.rsplit_once(" in ")?;
    let mut counts = None;
    for part in told.split(", ") {
        let (number, word) = part.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        let counts = counts.get_or_insert_with(Counts::default);
        match word {
            "passed" => counts.passed = number,
            "failed" | "error" | "errors" => counts.failed += number,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_pytest_tells_the_counts() {
        let told = |passed, failed| Some(Counts { passed, failed });
        assert_eq!(summary("40 passed, 3 deselected in 12.34s"), told(40, 0));
        assert_eq!(summary("= 2 failed, 40 passed, 1 warning, 1 error in 1.20s ="), told(40, 3));
        assert_eq!(summary("tests/test_client.py ........  [ 40%]"), None);
        assert_eq!(summary("a test about cats in boxes"), None);
    }
}
