//! Public datasets that models use besides the built-in tables, if they are available.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use byway_config_types::Problem;
use byway_plan::datasets::{
    PairPrices, aws_transfer, city_delays, city_positions, egress_pairs, google_egress, region_delays,
};
use byway_plan::{City, DelayTable, TableError, Tariff};

use crate::experiment::ReadFile;
use crate::raw::StudySetting;

/// Public dataset: its file in the datasets' folder, and a description of the data that it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dataset {
    file: &'static str,
    adds: &'static str,
}

const REGION_DELAYS: Dataset = Dataset {
    file: "latency/interdc_rtt_2022.csv",
    adds: "delays between 69 regions of three clouds (skyplane-project/skyplane, 2022)",
};
const CITY_DELAYS: Dataset = Dataset {
    file: "latency/wondernetwork_2018_avg_rtt_ms.csv",
    adds: "delays between 242 cities (WonderNetwork, 2018)",
};
const CITY_COORDINATES: Dataset = Dataset {
    file: "latency/wondernetwork_cities.csv",
    adds: "the continents of these cities (WonderNetwork, 2018)",
};
const HOST_DELAYS: Dataset = Dataset {
    file: "latency/planetlab490_median_rtt_ms.csv",
    adds: "delays between 490 hosts (Zhu and others, IEEE/ACM ToN 25, 2017)",
};
const EGRESS_PAIRS: Dataset = Dataset {
    file: "prices/allcloud_egress_pairs_2023-02.csv",
    adds: "prices between all regions of three clouds (skyplane-project/skyplane, 2023)",
};
const AWS_TRANSFER: Dataset = Dataset {
    file: "prices/aws_transfer_2023-04.csv",
    adds: "prices of all regions of AWS (skyplane-project/skyplane, 2023)",
};
const GOOGLE_EGRESS: Dataset = Dataset {
    file: "prices/gcp_egress_2026-07.csv",
    adds: "Google's prices to the Internet by volume (Cyclenerd/google-cloud-pricing-cost-calculator, 2026)",
};

/// Public datasets that are available to a model, and notes on those that are absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    pub(crate) regions: Option<DelayTable>,
    pub(crate) cities: Option<DelayTable>,
    pub(crate) coordinates: Option<Vec<City>>,
    pub(crate) hosts: Option<DelayTable>,
    pub(crate) pairs: Option<PairPrices>,
    pub(crate) aws: Option<PairPrices>,
    pub(crate) google: Option<BTreeMap<(String, String), Tariff>>,
    used: Vec<Dataset>,
    absent: Vec<Dataset>,
}

impl Data {
    /// Reads the datasets that a study uses from `folder`; without a folder, all are absent.
    ///
    /// # Errors
    /// If a file is damaged or cannot be read, or the folder has none of them.
    pub(crate) fn read(
        study: StudySetting,
        folder: Option<&Path>,
        read: &ReadFile<'_>,
    ) -> Result<Self, Problem> {
        let mut data = Self::default();
        let mut reader = DatasetReader { folder, read, data: &mut data };
        match study {
            StudySetting::Feasibility => {
                let regions = reader.table(REGION_DELAYS, region_delays, DelayTable::is_empty)?;
                let cities = reader.table(CITY_DELAYS, city_delays, DelayTable::is_empty)?;
                let coordinates = reader.table(CITY_COORDINATES, city_positions, Vec::is_empty)?;
                (data.regions, data.cities, data.coordinates) = (regions, cities, coordinates);
            }
            StudySetting::Routes => {
                let regions = reader.table(REGION_DELAYS, region_delays, DelayTable::is_empty)?;
                let cities = reader.table(CITY_DELAYS, city_delays, DelayTable::is_empty)?;
                let coordinates = reader.table(CITY_COORDINATES, city_positions, Vec::is_empty)?;
                let hosts = reader.table(HOST_DELAYS, city_delays, DelayTable::is_empty)?;
                (data.regions, data.cities, data.coordinates) = (regions, cities, coordinates);
                data.hosts = hosts;
            }
            StudySetting::Cost => {
                let pairs = reader.table(EGRESS_PAIRS, egress_pairs, BTreeMap::is_empty)?;
                let aws = reader.table(AWS_TRANSFER, aws_transfer, BTreeMap::is_empty)?;
                let google = reader.table(GOOGLE_EGRESS, google_egress, BTreeMap::is_empty)?;
                (data.pairs, data.aws, data.google) = (pairs, aws, google);
            }
            _ => return Ok(data),
        }
        match folder {
            Some(folder) if data.used.is_empty() => Err(Problem::without_location(format!(
                "{}: {} not found; name the folder of the public datasets, or none",
                folder.display(),
                files(&data.absent)
            ))),
            _ => Ok(data),
        }
    }

    /// Lists the datasets that the study uses, and those that could be added.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.used.is_empty() {
            let added: Vec<&str> = self.used.iter().map(|dataset| dataset.adds).collect();
            notes.push(format!("Public datasets used: {}.", added.join("; ")));
        }
        for dataset in &self.absent {
            notes.push(format!("Public dataset {} not used: it would add {}.", dataset.file, dataset.adds));
        }
        notes
    }
}

fn files(datasets: &[Dataset]) -> String {
    datasets.iter().map(|dataset| dataset.file).collect::<Vec<_>>().join(", ")
}

struct DatasetReader<'a> {
    folder: Option<&'a Path>,
    read: &'a ReadFile<'a>,
    data: &'a mut Data,
}

impl DatasetReader<'_> {
    /// Reads and parses a dataset; `None` if its file does not exist.
    fn table<T>(
        &mut self,
        dataset: Dataset,
        parse: fn(&str, &str) -> Result<T, TableError>,
        is_empty: fn(&T) -> bool,
    ) -> Result<Option<T>, Problem> {
        let Some(file) = self.folder.map(|folder| folder.join(dataset.file)) else {
            self.data.absent.push(dataset);
            return Ok(None);
        };
        let text = match (self.read)(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.data.absent.push(dataset);
                return Ok(None);
            }
            Err(error) => {
                let message = format!("{}: {error}; make it readable, or remove it", file.display());
                return Err(Problem::without_location(message));
            }
        };
        let table = parse(&file.display().to_string(), &text)
            .map_err(|error| Problem::without_location(format!("{error}; or remove the file")))?;
        if is_empty(&table) {
            let message = format!("{}:1: no rows found; download it again, or remove it", file.display());
            return Err(Problem::without_location(message));
        }
        self.data.used.push(dataset);
        Ok(Some(table))
    }
}
