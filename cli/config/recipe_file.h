/* cli/config/recipe_file.h — where --config or --recipe finds its file. */
#ifndef CLI_RECIPE_FILE_H
#define CLI_RECIPE_FILE_H

#include "cli/config/config.h"
#include "cli/paths.h"

#define RECIPES "examples/recipes"      /* seen from where the program is called */

/* The path of the file that asked takes options from; empty: none.  Fails with QG_EARG: there is no
 * such recipe, and the message lists those there are; both --recipe and --config are asked for. */
QG_MUST_CHECK
qg_status recipe_file(const config *asked, char path[PATH_BYTES]);

#endif
