# Stands in for the public image of PostgreSQL where that cannot be pulled: Debian's package, told the same variables.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner postgres /var/lib/postgresql/data
COPY postgres /start
USER postgres
ENTRYPOINT ["/start"]
