//! Grafana on promkairos: the dashboards of `grafana/`, and what its datasource sends.

mod alerts;
mod dashboards;
mod datasource;
mod scrape;
