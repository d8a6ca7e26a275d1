# Compiles the file named first and becomes the program, so that its end is the script's.
set -euo pipefail
tcc -Wall -o program "$1"
exec ./program
