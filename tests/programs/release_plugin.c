/* A plug-in that frees what it is given. */
#include <stdlib.h>

void plugin_release(void *p) { free(p); }
