//! The login at Cassandra: a user and a password, which may change while connections are open.
//!
//! A connection logs in once, when it is made, with the login of that moment; open connections stay
//! open. The password is never printed.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use scylla::authentication::{
    AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator,
};

/// A user and a password, or none. Clones share them: a change in one holds for all.
#[derive(Clone, Default)]
pub struct Credentials(Arc<RwLock<Option<Login>>>);

#[derive(Clone)]
struct Login {
    user: String,
    password: String,
}

impl Credentials {
    /// A login with this user and password.
    pub fn new(user: &str, password: &str) -> Self {
        let credentials = Self::default();
        credentials.set(Some((user, password)));
        credentials
    }

    /// Makes new connections log in with this user and password from now on; `None` = without a login.
    pub fn set(&self, login: Option<(&str, &str)>) {
        let login = login
            .map(|(user, password)| Login { user: user.to_owned(), password: password.to_owned() });
        *self.0.write() = login;
    }

    /// The user; `None` = no login.
    pub fn user(&self) -> Option<String> {
        self.0.read().as_ref().map(|login| login.user.clone())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user()).finish_non_exhaustive()
    }
}

#[async_trait]
impl AuthenticatorProvider for Credentials {
    /// Called for each connection to a node that requires a login.
    async fn start_authentication_session(
        &self,
        authenticator: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let login = self.0.read().clone();
        let login = login.ok_or_else(|| "it asks for a user and a password".to_owned())?;
        let plain = PlainTextAuthenticator::new(login.user, login.password);
        plain.start_authentication_session(authenticator).await
    }
}
