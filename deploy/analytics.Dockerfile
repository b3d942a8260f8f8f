# leveret-analytics and Spark, on top of a node's image.    docker build -f deploy/analytics.Dockerfile -t leveret-analytics .
#
# A master, a worker and a question of the profile `analytics` in compose.yaml are this one image, whose user is the nodes': nobody
# else may read their data.
#
# Where the builder reaches no package index, make the wheels elsewhere, with the Python of the base:
#   pip wheel --wheel-dir wheels '.[analytics]'
# Then nothing else is installed. Debian's packages have to be reached, unless NODE has Java.

ARG NODE=leveret
FROM ${NODE} AS build
USER root
COPY . /source
RUN set -eu; \
    /opt/leveret/bin/python -m ensurepip; \
    if [ -d /source/wheels ]; then \
        set -- --no-index --find-links /source/wheels; \
    else \
        set -- --constraint /source/constraints.txt; \
    fi; \
    /opt/leveret/bin/python -m pip install --no-cache-dir "$@" 'leveret-server[analytics]'; \
    cd /; \
    /opt/leveret/bin/python -c 'import analytics.parquet.convert'; \
    /opt/leveret/bin/python -m pip uninstall --yes --quiet setuptools pip

FROM ${NODE}
USER root
RUN set -eu; \
    if ! command -v java; then \
        apt-get update; \
        mkdir --parents /usr/share/man/man1; \
        apt-get install --yes --no-install-recommends default-jre-headless; \
        rm -rf /var/lib/apt/lists; \
    fi; \
    install --directory --owner leveret --group leveret --mode 0700 /spark /tables
COPY --from=build /opt/leveret /opt/leveret
ENV SPARK_LOCAL_DIRS=/spark
USER leveret
WORKDIR /spark
VOLUME ["/spark", "/tables"]
HEALTHCHECK NONE
ENTRYPOINT ["leveret-analytics"]
CMD ["--help"]
