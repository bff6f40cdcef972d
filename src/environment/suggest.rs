//! What was probably meant by a package name that no index knows. A listing of an index takes tens of megabytes, so the
//! names are a short list of packages that scripts ask for, and of modules that are called otherwise than the
//! package they come in. Pure.

use crate::script::nearest;

/// Modules, and the packages they come in.
const MODULES: [(&str, &str); 24] = [
    ("attr", "attrs"),
    ("bio", "biopython"),
    ("bs4", "beautifulsoup4"),
    ("crypto", "pycryptodome"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("faiss", "faiss-cpu"),
    ("fitz", "pymupdf"),
    ("git", "gitpython"),
    ("github", "pygithub"),
    ("jwt", "pyjwt"),
    ("magic", "python-magic"),
    ("mysqldb", "mysqlclient"),
    ("openssl", "pyopenssl"),
    ("osgeo", "gdal"),
    ("pil", "pillow"),
    ("pptx", "python-pptx"),
    ("serial", "pyserial"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("usb", "pyusb"),
    ("yaml", "pyyaml"),
];

/// Packages, in alphabetical order.
const PACKAGES: &str = "aiofiles aiohttp altair anthropic anyio arrow asyncpg attrs authlib awswrangler babel bcrypt \
    beautifulsoup4 biopython black bokeh boto3 bottleneck cachetools catboost celery certifi cffi chardet chromadb click \
    cloudpickle colorama cryptography cython dash dask datasets defusedxml diskcache django docutils duckdb elasticsearch \
    email-validator faker fastapi fastparquet feedparser flask folium fonttools fsspec gensim geopandas geopy gevent \
    gitpython google-api-python-client gradio graphviz grpcio gunicorn h5py html5lib httpx huggingface-hub hypothesis \
    imageio imbalanced-learn ipython jax jinja2 joblib jsonschema jupyter kafka-python keras langchain langdetect lightgbm \
    littleutils loguru lxml markdown marshmallow matplotlib mechanize mlflow more-itertools moviepy mpmath msgpack \
    multidict mypy mysqlclient networkx nltk numba numexpr numpy oauthlib openai opencv-python-headless openpyxl optuna \
    orjson packaging pandas paramiko passlib patsy peewee pendulum pillow playwright plotly polars pprintpp prettytable \
    prophet protobuf psutil psycopg psycopg2-binary py7zr pyarrow pycparser pycryptodome pydantic pydot pyfiglet pygments \
    pygithub pyjwt pymongo pymupdf pymysql pyopenssl pyparsing pypdf pyperclip pyserial pytesseract pytest python-dateutil \
    python-docx python-dotenv python-magic python-pptx pytz pyyaml pyzmq qrcode rapidfuzz ray redis regex reportlab \
    requests requests-oauthlib retry rich ruamel.yaml s3fs scapy scikit-image scikit-learn scipy scrapy seaborn selenium \
    sentence-transformers sentencepiece setuptools shapely simplejson simpy six snowflake-connector-python sortedcontainers \
    soupsieve spacy sqlalchemy sqlmodel starlette statsmodels streamlit sympy tabulate tenacity tensorflow termcolor \
    textblob tiktoken tokenizers toml tomli toolz torch torchvision tornado tqdm transformers trio typer typing-extensions \
    tzdata ujson unidecode urllib3 uvicorn validators vaderSentiment watchdog websocket-client websockets werkzeug wheel \
    wordcloud xarray xgboost xlrd xlsxwriter xmltodict yfinance zstandard";

/// The package that was probably meant, where one comes to mind and is another one.
pub fn meant(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    if let Some((_, package)) = MODULES.iter().find(|(module, _)| *module == lower) {
        return Some(package);
    }
    let known: Vec<&str> = PACKAGES.split_whitespace().collect();
    nearest(name, &known).filter(|found| !found.eq_ignore_ascii_case(name))
}

/// The package to name for a module that is missing: by the list, or the one of the same name.
pub fn package_with(module: &str) -> &str {
    let lower = module.to_ascii_lowercase();
    MODULES.iter().find(|(name, _)| *name == lower).map_or(module, |(_, package)| package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_and_names_of_modules_lead_to_packages() {
        for (name, wanted) in [
            ("nunpy", Some("numpy")),
            ("reqests", Some("requests")),
            ("cv2", Some("opencv-python-headless")),
            ("PIL", Some("pillow")),
            ("sk-learn", Some("scikit-learn")),
            ("numpy", None),
            ("our-internal-tool", None),
        ] {
            assert_eq!(meant(name), wanted, "{name}");
        }
    }

    #[test]
    fn a_module_leads_to_its_package() {
        for (module, package) in [("cv2", "opencv-python-headless"), ("yaml", "pyyaml"), ("helper", "helper")]
        {
            assert_eq!(package_with(module), package);
        }
    }

    #[test]
    fn the_lists_are_in_order() {
        assert!(MODULES.is_sorted());
        let packages: Vec<String> = PACKAGES.split_whitespace().map(str::to_lowercase).collect();
        assert!(packages.len() > 200);
    }
}
