#ifndef DEPLOY_CLI_TEXT_NUMBER_TEXT_H_
#define DEPLOY_CLI_TEXT_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

namespace capstan {

// "1st", "2nd", "11th".
std::string OrdinalText(uint64_t number);

// With commas: "1,234,567".
std::string CountText(uint64_t count);
// The same for a measured number, without its fraction. "?" unless it is from 0 to 2^63.
std::string RoundedCountText(double count);

// "512 B", "1.5 kB", "12.3 MB", "4.0 GB", in powers of 1000.
std::string BytesText(double bytes);

// How much smaller the bytes that were sent are: "3.9x smaller", "1.5x larger" or "no smaller".
// `ratio` is the size before, divided by the size after.
std::string RatioText(double ratio);

// "step 120 of 400". "step 120" if the total is 0: not known.
std::string StepText(int64_t step, int64_t total);

// "0:05", "12:34", "1:02:03". "?" unless it is from 0 to 1e9 seconds.
std::string TimeText(double seconds);

}  // namespace capstan

#endif  // DEPLOY_CLI_TEXT_NUMBER_TEXT_H_
