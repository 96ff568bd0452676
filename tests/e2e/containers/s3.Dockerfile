# Stands in for the S3 store where its public image cannot be pulled: moto's server. It asks for no secret, forgets all
# when it ends, and shows that our side speaks S3 over HTTP, not that the store does.
ARG IMAGE
FROM ${IMAGE}
USER root
COPY requirements-dev.txt ./
RUN --mount=type=secret,id=certificate \
    --mount=type=cache,target=/root/.cache \
    if [ -s /run/secrets/certificate ]; then export SSL_CERT_FILE=/run/secrets/certificate; fi \
    && .venv/bin/python -m uv pip install --python .venv/bin/python --constraint requirements-dev.txt 'moto[s3]' flask flask-cors
USER medallion
CMD ["python", "-m", "moto.server", "-H", "0.0.0.0", "-p", "8333"]
