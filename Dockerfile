# One image for all that is ours: Airflow's parts, Spark's master and workers, the medallion command.
# docker-compose.yml runs it; docs/how-to/deploy.md says more.

# Anything with apt and Python 3.11 will do: a copy in a registry of your own, for instance.
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS java
RUN apt-get update \
    && mkdir -p /usr/share/man/man1 \
    && apt-get install --yes --no-install-recommends ca-certificates openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

# Everything that is locked. Behind a registry of your own, this step alone is given its settings (PIP_INDEX_URL=...,
# one a line) and its certificate, as secrets; nothing of them is left in the image.
FROM java AS locked
WORKDIR /opt/medallion
COPY pyproject.toml README.md LICENSE requirements.in requirements.txt ./
COPY requirements requirements
COPY scripts/bootstrap scripts/bootstrap.py scripts/bootstrap.txt scripts/
COPY medallion/__init__.py medallion/
COPY medallion/errors medallion/errors
COPY medallion/spark/__init__.py medallion/spark/java.py medallion/spark/jars.py medallion/spark/jars.lock medallion/spark/jars-s3.lock medallion/spark/
RUN --mount=type=secret,id=settings \
    --mount=type=secret,id=certificate \
    --mount=type=cache,target=/root/.cache \
    if [ -s /run/secrets/settings ]; then set -a && . /run/secrets/settings && set +a; fi \
    && if [ -s /run/secrets/certificate ]; then \
        cp /run/secrets/certificate /usr/local/share/ca-certificates/build.crt && update-ca-certificates \
        && export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt; \
    fi \
    && scripts/bootstrap --s3

FROM java
RUN useradd --uid 10001 --create-home medallion \
    && install --directory --owner medallion --group medallion /data/lake /data/airflow /opt/airflow
WORKDIR /opt/medallion
COPY --from=locked /opt/medallion/.venv .venv
COPY --from=locked /opt/medallion/.jars .jars
COPY . .
RUN .venv/bin/python -m compileall -q dags plugins spark_jobs expectations demo medallion bench scripts
ENV PATH=/opt/medallion/.venv/bin:$PATH \
    PYSPARK_PYTHON=/opt/medallion/.venv/bin/python \
    SPARK_HOME=/opt/medallion/.venv/lib/python3.11/site-packages/pyspark \
    SPARK_CONF_DIR=/home/medallion/spark \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/medallion/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/medallion/plugins \
    MEDALLION_LAKE=/data/lake
USER medallion
ENTRYPOINT ["containers/start"]
CMD ["medallion", "--help"]
