//! Experiments as meant: which runs they take.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use byway_scenario::{Scenario, change};
use byway_typed::{KeyPath, Problem, Source};
use byway_units::Duration;
use toml::Table;

use crate::classes::{self, Plan};
use crate::limits::{ARMS_MAX, RUNS_MAX};
use crate::model::Data;
use crate::target::target;
use crate::typed::{TypedArm, TypedExperiment, TypedRow, TypedStudy};

/// A published result with what it takes to see it again: scenarios to run, measures, and what is compared with what.
#[derive(Debug)]
pub struct Experiment {
    pub(crate) typed: TypedExperiment,
    pub(crate) is_full: bool,
    pub(crate) seeds: Vec<u64>,
    pub(crate) arms: Vec<Arm>,
    pub(crate) data: Data,
}

/// A variant of an experiment's scenario.
#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) x: Option<f64>,
    pub(crate) curve: Option<String>,
    pub(crate) run: Runs,
}

/// What is run.
#[derive(Debug)]
pub(crate) enum Runs {
    Scenario(Box<Scenario>),
    Classes(Box<Plan>),
}

impl Runs {
    /// How long it lasts, in its own time.
    pub(crate) fn length(&self) -> Duration {
        match self {
            Self::Scenario(scenario) => scenario.length(),
            Self::Classes(plan) => plan.length,
        }
    }
}

/// How an experiment is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// In full, and not as the default suite does.
    pub is_full: bool,
    /// With these seeds, in the place of its own.
    pub seeds: Option<Vec<u64>>,
    /// With the public datasets of this folder, beside the tables that models have built in.
    pub data: Option<PathBuf>,
}

/// Gives a file's text.
pub type ReadFile<'a> = dyn Fn(&Path) -> io::Result<String> + 'a;

impl Experiment {
    /// Reads an experiment, its scenario and the traces that that names, by `read`.
    ///
    /// # Errors
    /// If something in it is wrong; the error names file, line, key and remedy.
    pub fn read(file: &Path, options: &Options, read: &ReadFile<'_>) -> Result<Self, Problem> {
        let text = read(file).map_err(|error| {
            Problem::nowhere(format!("{}: {error}; name an experiment's file", file.display()))
        })?;
        let source = Source::new(file, text);
        let typed: TypedExperiment =
            toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
        let reader = Reader { source: &source, folder: file.parent().unwrap_or(Path::new("")), read };
        reader.meaning(typed, options)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.typed.id
    }

    /// What it is about, in a line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.typed.title
    }

    /// The place of an arm.
    pub(crate) fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm.name == name)
    }
}

/// An experiment's file while it is understood.
struct Reader<'a> {
    source: &'a Source,
    folder: &'a Path,
    read: &'a ReadFile<'a>,
}

impl Reader<'_> {
    fn meaning(&self, typed: TypedExperiment, options: &Options) -> Result<Experiment, Problem> {
        if typed.study.is_model() == typed.scenario.is_some() {
            let message = if typed.study.is_model() {
                "this study runs no scenario: leave it out"
            } else {
                "is missing: name the file of the scenario that this study runs"
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
            let message = format!("1 to {RUNS_MAX} runs are possible: have other seeds or arms");
            return Err(self.source.problem(&KeyPath::of("seeds"), message));
        }
        let data = Data::read(typed.study, options.data.as_deref(), self.read)?;
        let experiment = Experiment { is_full: options.is_full, seeds, arms, data, typed };
        for (place, row) in experiment.typed.row.iter().enumerate() {
            self.check_row(&experiment, row, &KeyPath::of("row").place(place))?;
        }
        self.check_arms_of(&experiment)?;
        Ok(experiment)
    }

    fn arms(&self, typed: &TypedExperiment, scenario: &Path, options: &Options) -> Result<Vec<Arm>, Problem> {
        let file = self.folder.join(scenario);
        let base = self.base(&file)?;
        let whole =
            TypedArm { name: "all".to_owned(), title: None, x: None, curve: None, set: BTreeMap::default() };
        let arms = if typed.arm.is_empty() { std::slice::from_ref(&whole) } else { &typed.arm[..] };
        if arms.len() > ARMS_MAX {
            let message = format!("there are more than {ARMS_MAX} arms: have fewer");
            return Err(self.source.problem(&KeyPath::of("arm"), message));
        }
        let mut found: Vec<Arm> = Vec::new();
        for (place, arm) in arms.iter().enumerate() {
            let here = KeyPath::of("arm").place(place);
            if found.iter().any(|before| before.name == arm.name) {
                let message = format!("another arm is called {:?}: names differ", arm.name);
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

    /// The scenario's file, as values.
    fn base(&self, file: &Path) -> Result<Table, Problem> {
        let text = (self.read)(file).map_err(|error| {
            let message = format!("{}: {error}; name a scenario beside this file", file.display());
            self.source.problem(&KeyPath::of("scenario"), message)
        })?;
        let scenario = Source::new(file, text);
        scenario.text().parse().map_err(|error| scenario.parse_problem(&error))
    }

    fn runs(&self, study: TypedStudy, file: &Path, table: &Table, here: &KeyPath) -> Result<Runs, Problem> {
        let text = table.to_string();
        if study == TypedStudy::Classes {
            let plan = classes::read(file, text).map_err(|problem| self.changed(here, &problem))?;
            return Ok(Runs::Classes(Box::new(plan)));
        }
        self.scenario(file, &text, here).map(|scenario| Runs::Scenario(Box::new(scenario)))
    }

    fn scenario(&self, file: &Path, text: &str, here: &KeyPath) -> Result<Scenario, Problem> {
        let read = |wanted: &Path| if wanted == file { Ok(text.to_owned()) } else { (self.read)(wanted) };
        let scenario = Scenario::read(file, &read);
        let scenario = scenario.and_then(|scenario| match scenario.check() {
            Ok(()) => Ok(scenario),
            Err(error) => Err(Problem::nowhere(error.to_string())),
        });
        scenario.map_err(|problem| self.changed(here, &problem))
    }

    /// What is wrong with a scenario as an arm has it.
    fn changed(&self, here: &KeyPath, problem: &Problem) -> Problem {
        let message =
            format!("with what this sets, the scenario is wrong (lines are of the changed file): {problem}");
        self.source.problem(here, message)
    }

    fn check_row(&self, experiment: &Experiment, row: &TypedRow, here: &KeyPath) -> Result<(), Problem> {
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

    /// That whatever names an arm names one that there is.
    fn check_arms_of(&self, experiment: &Experiment) -> Result<(), Problem> {
        let typed = &experiment.typed;
        if let Some(control) = &typed.control {
            self.check_arm(experiment, control, &KeyPath::of("control"))?;
        }
        let plots = typed.plot.iter().enumerate().map(|(place, plot)| ("plot", place, &plot.arms));
        let tables = typed.table.iter().enumerate().map(|(place, table)| ("table", place, &table.arms));
        for (list, place, arms) in plots.chain(tables) {
            for arm in arms.iter().flatten() {
                self.check_arm(experiment, arm, &KeyPath::of(list).place(place).key("arms"))?;
            }
        }
        Ok(())
    }

    fn check_arm(&self, experiment: &Experiment, name: &str, here: &KeyPath) -> Result<(), Problem> {
        if experiment.arm(name).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
        Err(self.source.problem(here, format!("no arm is called {name:?}: there are {}", names.join(", "))))
    }
}

/// Where experiments are, by their names: all files of a folder that are called like `rec-paths.toml`.
#[must_use]
pub fn file_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.toml"))
}
