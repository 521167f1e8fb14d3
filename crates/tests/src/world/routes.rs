//! Routes that change while sessions have traffic.

use adit_tables::RoutesConfig;

use super::World;
use super::layout::route;
use crate::oracle::OracleRoute;

impl World {
    /// Gives both sides other routes, whose gateways are known ([`World::learn`]).
    ///
    /// # Panics
    /// The routes have a mistake.
    #[allow(clippy::unwrap_used, reason = "a test")]
    pub fn change_routes(&mut self, routes: Vec<OracleRoute>) {
        let config = RoutesConfig {
            interfaces: self.publisher.interfaces().to_vec(),
            local_switching_domains: Vec::new(),
            routes: routes.iter().map(route).collect(),
        };
        let prepared = self.publisher.prepare_routes(config).unwrap();
        self.publish_neighbors();
        assert_eq!(self.publisher.unresolved_gateway(&prepared), None);
        self.publisher.publish_routes(prepared);
        self.oracle.routes = routes;
    }
}
