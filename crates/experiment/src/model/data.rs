//! Public datasets that models use where they are at hand, beside the tables that come with the program.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use byway_plan::datasets::{
    PairPrices, aws_transfer, city_delays, city_places, egress_pairs, google_egress, region_delays,
};
use byway_plan::{City, DelayTable, TableError, Tariff};
use byway_typed::Problem;

use crate::experiment::ReadFile;
use crate::typed::TypedStudy;

/// A file of the datasets' folder.
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
const CITY_PLACES: Dataset = Dataset {
    file: "latency/wondernetwork_cities.csv",
    adds: "the continents of these cities (WonderNetwork, 2018)",
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

/// The public datasets that are at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    pub(crate) regions: Option<DelayTable>,
    pub(crate) cities: Option<DelayTable>,
    pub(crate) places: Option<Vec<City>>,
    pub(crate) pairs: Option<PairPrices>,
    pub(crate) aws: Option<PairPrices>,
    pub(crate) google: Option<BTreeMap<(String, String), Tariff>>,
    used: Vec<Dataset>,
    absent: Vec<Dataset>,
}

impl Data {
    /// Reads what a study uses; without a folder, nothing.
    ///
    /// # Errors
    /// If a file is damaged or cannot be read, or the folder has none of them.
    pub(crate) fn read(
        study: TypedStudy,
        folder: Option<&Path>,
        read: &ReadFile<'_>,
    ) -> Result<Self, Problem> {
        let mut data = Self::default();
        let mut reader = Reader { folder, read, data: &mut data };
        match study {
            TypedStudy::Feasibility => {
                let regions = reader.table(REGION_DELAYS, region_delays, DelayTable::is_empty)?;
                let cities = reader.table(CITY_DELAYS, city_delays, DelayTable::is_empty)?;
                let places = reader.table(CITY_PLACES, city_places, Vec::is_empty)?;
                (data.regions, data.cities, data.places) = (regions, cities, places);
            }
            TypedStudy::Cost => {
                let pairs = reader.table(EGRESS_PAIRS, egress_pairs, BTreeMap::is_empty)?;
                let aws = reader.table(AWS_TRANSFER, aws_transfer, BTreeMap::is_empty)?;
                let google = reader.table(GOOGLE_EGRESS, google_egress, BTreeMap::is_empty)?;
                (data.pairs, data.aws, data.google) = (pairs, aws, google);
            }
            _ => return Ok(data),
        }
        match folder {
            Some(folder) if data.used.is_empty() => Err(Problem::nowhere(format!(
                "{}: has no {}; name the folder of the public datasets, or none",
                folder.display(),
                files(&data.absent)
            ))),
            _ => Ok(data),
        }
    }

    /// Which tables a study is computed from, and what others would add.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.used.is_empty() {
            let added: Vec<&str> = self.used.iter().map(|dataset| dataset.adds).collect();
            notes.push(format!("Of public datasets, this uses {}.", added.join("; ")));
        }
        for dataset in &self.absent {
            notes
                .push(format!("Without the public dataset {}: it would add {}.", dataset.file, dataset.adds));
        }
        notes
    }
}

fn files(datasets: &[Dataset]) -> String {
    datasets.iter().map(|dataset| dataset.file).collect::<Vec<_>>().join(", ")
}

struct Reader<'a> {
    folder: Option<&'a Path>,
    read: &'a ReadFile<'a>,
    data: &'a mut Data,
}

impl Reader<'_> {
    /// A dataset, if it is there.
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
                let message = format!("{}: {error}; make it readable, or take it away", file.display());
                return Err(Problem::nowhere(message));
            }
        };
        let table = parse(&file.display().to_string(), &text)
            .map_err(|error| Problem::nowhere(format!("{error}; or take the file away")))?;
        if is_empty(&table) {
            let message = format!("{}:1: has no rows; get it again, or take it away", file.display());
            return Err(Problem::nowhere(message));
        }
        self.data.used.push(dataset);
        Ok(Some(table))
    }
}
