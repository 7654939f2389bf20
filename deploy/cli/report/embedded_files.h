#ifndef DEPLOY_CLI_REPORT_EMBEDDED_FILES_H_
#define DEPLOY_CLI_REPORT_EMBEDDED_FILES_H_

namespace capstan {

// Files that are part of the program; the build makes them into constants (see BUILD).
extern const char kD3Script[];    // the charting library, minified, of Debian's libjs-d3
extern const char kPageScript[];  // page/page.js
extern const char kPageStyle[];   // page/page.css

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_EMBEDDED_FILES_H_
