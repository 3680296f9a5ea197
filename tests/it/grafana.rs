//! Grafana on promkairos: the dashboards of `grafana/`, and what its datasource sends.

mod dashboards;
mod datasource;
mod scrape;
