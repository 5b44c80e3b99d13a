//! Experiments: published results as files, validated with their scenarios, arms and seeds.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use byway_config_types::{KeyPath, Problem, Source};
use byway_scenario::{Scenario, change};
use byway_units::Duration;
use toml::Table;

use crate::classes::{self, Plan};
use crate::limits::{ARMS_MAX, RUNS_MAX};
use crate::model::Data;
use crate::raw::{ArmSetting, ExperimentSetting, RowSetting, StudySetting};
use crate::state::{self, StatePlan};
use crate::target::target;

/// Published result with everything that its reproduction needs: scenarios, measures, and
/// comparisons.
#[derive(Debug)]
pub struct Experiment {
    pub(crate) settings: ExperimentSetting,
    pub(crate) is_full: bool,
    pub(crate) seeds: Vec<u64>,
    pub(crate) arms: Vec<Arm>,
    pub(crate) data: Data,
}

/// Variant of an experiment's scenario, which runs with every seed.
#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) x: Option<f64>,
    pub(crate) curve: Option<String>,
    pub(crate) run: Runs,
}

/// Validated scenario or plan that an arm runs.
#[derive(Debug)]
pub(crate) enum Runs {
    Scenario(Box<Scenario>),
    Classes(Box<Plan>),
    State(Box<StatePlan>),
}

impl Runs {
    /// Returns the length of a run, in simulated time.
    pub(crate) fn length(&self) -> Duration {
        match self {
            Self::Scenario(scenario) => scenario.length(),
            Self::Classes(plan) => plan.length,
            Self::State(plan) => plan.length,
        }
    }
}

/// Options for reading and running an experiment.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Runs the experiment's full version, with more seeds and longer runs, instead of the default
    /// one.
    pub is_full: bool,
    /// Seeds that replace the experiment's own; `None` leaves them.
    pub seeds: Option<Vec<u64>>,
    /// Folder of public datasets, which models use besides their built-in tables.
    pub data: Option<PathBuf>,
}

/// Function that reads the text of a file at a path.
pub type ReadFile<'a> = dyn Fn(&Path) -> io::Result<String> + 'a;

impl Experiment {
    /// Reads an experiment, its scenario and the scenario's traces, by `read`.
    ///
    /// # Errors
    /// If something in it is invalid; the error names file, line, key and remedy.
    pub fn read(file: &Path, options: &Options, read: &ReadFile<'_>) -> Result<Self, Problem> {
        let text = read(file).map_err(|error| {
            Problem::without_location(format!("{}: {error}; name an experiment file", file.display()))
        })?;
        let source = Source::new(file, text);
        let typed: ExperimentSetting =
            toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
        let reader = Reader { source: &source, folder: file.parent().unwrap_or(Path::new("")), read };
        reader.validate(typed, options)
    }

    /// Returns the experiment's name, as in its file.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.settings.id
    }

    /// Returns the experiment's subject in one line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.settings.title
    }

    /// Returns the index of the arm with this name; `None` if there is none.
    pub(crate) fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm.name == name)
    }
}

/// Reader that validates an experiment's file and builds its arms.
struct Reader<'a> {
    source: &'a Source,
    folder: &'a Path,
    read: &'a ReadFile<'a>,
}

impl Reader<'_> {
    fn validate(&self, typed: ExperimentSetting, options: &Options) -> Result<Experiment, Problem> {
        if typed.study.is_model() == typed.scenario.is_some() {
            let message = if typed.study.is_model() {
                "not allowed, because this study runs no scenario: omit it"
            } else {
                "missing: name the scenario file of this study"
            };
            return Err(self.source.problem(&KeyPath::of("scenario"), message));
        }
        let arms = match &typed.scenario {
            Some(scenario) => self.arms(&typed, scenario, options)?,
            None => Vec::new(),
        };
        let full = typed.full.seeds.clone().filter(|_| options.is_full);
        let seeds = options.seeds.clone().or(full).or(typed.seeds.clone()).unwrap_or_else(|| vec![1]);
        if seeds.is_empty() || seeds.len() * arms.len() > RUNS_MAX {
            let message = format!("number of runs out of range, 1 to {RUNS_MAX}: change seeds or arms");
            return Err(self.source.problem(&KeyPath::of("seeds"), message));
        }
        let data = Data::read(typed.study, options.data.as_deref(), self.read)?;
        let experiment = Experiment { is_full: options.is_full, seeds, arms, data, settings: typed };
        for (index, row) in experiment.settings.row.iter().enumerate() {
            self.check_row(&experiment, row, &KeyPath::of("row").index(index))?;
        }
        self.check_arms_of(&experiment)?;
        Ok(experiment)
    }

    fn arms(
        &self,
        typed: &ExperimentSetting,
        scenario: &Path,
        options: &Options,
    ) -> Result<Vec<Arm>, Problem> {
        let file = self.folder.join(scenario);
        let base = self.base(&file)?;
        let whole = ArmSetting {
            name: "all".to_owned(),
            title: None,
            x: None,
            curve: None,
            set: BTreeMap::default(),
        };
        let arms = if typed.arm.is_empty() { std::slice::from_ref(&whole) } else { &typed.arm[..] };
        if arms.len() > ARMS_MAX {
            let message = format!("too many arms: at most {ARMS_MAX}");
            return Err(self.source.problem(&KeyPath::of("arm"), message));
        }
        let mut found: Vec<Arm> = Vec::new();
        for (index, arm) in arms.iter().enumerate() {
            let here = KeyPath::of("arm").index(index);
            if found.iter().any(|before| before.name == arm.name) {
                let message = format!("duplicate name {:?}: give each arm its own", arm.name);
                return Err(self.source.problem(&here.key("name"), message));
            }
            let mut table = base.clone();
            let full = options.is_full.then_some(&typed.full.set).into_iter().flatten();
            for (key, value) in typed.set.iter().chain(full).chain(&arm.set) {
                change::set(&mut table, key, value)
                    .map_err(|message| self.source.problem(&here.key("set"), message))?;
            }
            found.push(Arm {
                name: arm.name.clone(),
                title: arm.title.clone().unwrap_or_else(|| arm.name.clone()),
                x: arm.x,
                curve: arm.curve.clone(),
                run: self.runs(typed.study, &file, &table, &here)?,
            });
        }
        Ok(found)
    }

    /// Reads the scenario's file as TOML values, to which each arm applies its changes.
    fn base(&self, file: &Path) -> Result<Table, Problem> {
        let text = (self.read)(file).map_err(|error| {
            let message = format!("{}: {error}; name a scenario in this file's folder", file.display());
            self.source.problem(&KeyPath::of("scenario"), message)
        })?;
        let scenario = Source::new(file, text);
        scenario.text().parse().map_err(|error| scenario.parse_problem(&error))
    }

    fn runs(&self, study: StudySetting, file: &Path, table: &Table, here: &KeyPath) -> Result<Runs, Problem> {
        let text = table.to_string();
        if study == StudySetting::Classes {
            let plan = classes::read(file, text).map_err(|problem| self.changed(here, &problem))?;
            return Ok(Runs::Classes(Box::new(plan)));
        }
        if study == StudySetting::State {
            let plan = state::read(file, text).map_err(|problem| self.changed(here, &problem))?;
            return Ok(Runs::State(Box::new(plan)));
        }
        self.scenario(file, &text, here).map(|scenario| Runs::Scenario(Box::new(scenario)))
    }

    fn scenario(&self, file: &Path, text: &str, here: &KeyPath) -> Result<Scenario, Problem> {
        let read = |wanted: &Path| if wanted == file { Ok(text.to_owned()) } else { (self.read)(wanted) };
        let scenario = Scenario::read(file, &read);
        let scenario = scenario.and_then(|scenario| match scenario.check() {
            Ok(()) => Ok(scenario),
            Err(error) => Err(Problem::without_location(error.to_string())),
        });
        scenario.map_err(|problem| self.changed(here, &problem))
    }

    /// Describes a problem of the scenario after an arm's changes, at the arm's key.
    fn changed(&self, here: &KeyPath, problem: &Problem) -> Problem {
        let message = format!(
            "invalid scenario after the changes of this file (lines are of the changed scenario): {problem}"
        );
        self.source.problem(here, message)
    }

    fn check_row(&self, experiment: &Experiment, row: &RowSetting, here: &KeyPath) -> Result<(), Problem> {
        target(row).map_err(|(key, message)| self.source.problem(&here.key(key), message))?;
        let named =
            [("arm", &row.arm), ("over", &row.over), ("beyond", &row.beyond), ("control", &row.control)];
        for (key, name) in named {
            if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
                self.check_arm(experiment, name, &here.key(key))?;
            }
        }
        Ok(())
    }

    /// Checks that all arms that plots, tables and the control name exist.
    fn check_arms_of(&self, experiment: &Experiment) -> Result<(), Problem> {
        let typed = &experiment.settings;
        if let Some(control) = &typed.control {
            self.check_arm(experiment, control, &KeyPath::of("control"))?;
        }
        let plots = typed.plot.iter().enumerate().map(|(index, plot)| ("plot", index, &plot.arms));
        let tables = typed.table.iter().enumerate().map(|(index, table)| ("table", index, &table.arms));
        for (list, index, arms) in plots.chain(tables) {
            for arm in arms.iter().flatten() {
                self.check_arm(experiment, arm, &KeyPath::of(list).index(index).key("arms"))?;
            }
        }
        Ok(())
    }

    fn check_arm(&self, experiment: &Experiment, name: &str, here: &KeyPath) -> Result<(), Problem> {
        if experiment.arm(name).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
        Err(self.source.problem(here, format!("arm {name:?} not found: name one of {}", names.join(", "))))
    }
}

/// Returns the path of an experiment's file in a folder: `rec-paths.toml` for `rec-paths`.
#[must_use]
pub fn file_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.toml"))
}
