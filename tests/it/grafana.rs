//! Grafana on promkairos: the dashboards of `grafana/`, and the requests of its datasource.

mod alerts;
mod dashboards;
mod datasource;
mod scrape;
