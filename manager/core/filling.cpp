#include "manager/core/filling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <vector>

namespace warmroot::core {

namespace {

constexpr int kMibPerGib = 1024;

Milliseconds reading(int data_gib, int mib_s) {
  return Milliseconds{std::int64_t{1'000} * data_gib * kMibPerGib / mib_s};
}

std::string way_text(const Fill& fill) {
  switch (fill.way) {
    case FillWay::free:
      return "loaded by EC2 in the background";
    case FillWay::fast_restore:
      return "by fast snapshot restore";
    case FillWay::rate:
      return "at a paid " + std::to_string(fill.rate_mib_s) + " MiB/s";
    case FillWay::copy:
      return "as a copy of the golden volume";
  }
  return {};
}

std::string price_text(const Fill& fill) {
  if (!fill.price_usd) return "at a price that the spec does not name (stock.copy_usd_gib)";
  if (*fill.price_usd <= 0) return "for nothing";
  return "for " + money_text(*fill.price_usd);
}

std::string summary(const Fill& fill) {
  return way_text(fill) + ", ready in about " + duration_text(fill.ready_in) + ", " +
         price_text(fill);
}

Fill free_fill(const FillFacts& facts) {
  Fill fill;
  fill.ready_in = kAvailableAfter + reading(facts.data_gib, kFreeMibS);
  fill.price_usd = 0;
  return fill;
}

void add_rate(std::vector<Fill>& fills, const FillFacts& facts, int most, double usd_gib) {
  Fill fill;
  fill.way = FillWay::rate;
  fill.rate_mib_s = std::min(most, facts.rate_left_mib_s);
  if (fill.rate_mib_s < kLeastRateMibS) return;
  if (!fills.empty() && fills.back().rate_mib_s == fill.rate_mib_s) return;
  fill.ready_in = kAvailableAfter + reading(facts.data_gib, fill.rate_mib_s);
  fill.price_usd = usd_gib * facts.data_gib;
  fills.push_back(fill);
}

std::vector<Fill> possible(const FillFacts& facts) {
  std::vector<Fill> fills;
  add_rate(fills, facts, kCheaperRateMibS, kCheaperRateUsdGib);
  add_rate(fills, facts, kMostRateMibS, kMostRateUsdGib);
  if (facts.copy_after) {
    Fill fill;
    fill.way = FillWay::copy;
    fill.start_in = *facts.copy_after;
    fill.ready_in = *facts.copy_after + kAvailableAfter;
    if (facts.copy_usd_gib) fill.price_usd = *facts.copy_usd_gib * facts.data_gib;
    fills.push_back(fill);
  }
  fills.push_back(free_fill(facts));
  if (facts.fast_restore) {
    Fill fill;
    fill.way = FillWay::fast_restore;
    fill.ready_in = kAvailableAfter;
    fill.price_usd = 0;
    fills.push_back(fill);
  }
  return fills;
}

const Fill* best_of(const std::vector<Fill>& fills, auto fits, auto rank) {
  const Fill* best = nullptr;
  for (const auto& fill : fills)
    if (fits(fill) && (!best || rank(fill) < rank(*best))) best = &fill;
  return best;
}

}  // namespace

Fill choose_fill(const FillFacts& facts, Milliseconds deadline) {
  const auto fills = possible(facts);
  const bool any_time = deadline <= Milliseconds{0};
  const auto by_price = [](const Fill& fill) {
    return std::make_tuple(fill.price_usd.value_or(0), fill.ready_in);
  };
  const auto by_time = [](const Fill& fill) {
    return std::make_tuple(fill.ready_in, fill.price_usd.value_or(0));
  };
  const auto costs_nothing = [](const Fill& fill) { return fill.price_usd == 0.0; };
  const auto in_time = [&](const Fill& fill) { return fill.ready_in <= deadline; };
  const auto priced = [&](const Fill& fill) { return fill.price_usd && in_time(fill); };
  const auto any = [](const Fill&) { return true; };
  const Fill* best =
      any_time ? best_of(fills, costs_nothing, by_time) : best_of(fills, priced, by_price);
  if (!best) best = best_of(fills, in_time, by_time);
  const bool late = !best;
  if (!best) best = best_of(fills, any, by_time);
  Fill chosen = *best;
  chosen.in_time = !late;
  chosen.why = summary(chosen);
  if (late)
    chosen.why += "; nothing is ready within " + duration_text(deadline) + ", this is the fastest";
  else if (!any_time && chosen.way != FillWay::free && chosen.way != FillWay::fast_restore)
    chosen.why += "; free loading would take about " + duration_text(free_fill(facts).ready_in) +
                  ", it is wanted within " + duration_text(deadline);
  return chosen;
}

std::string money_text(double usd) {
  char text[32];
  std::snprintf(text, sizeof text, usd < 0.095 ? "%.3f USD" : "%.2f USD", usd);
  return text;
}

std::string duration_text(Milliseconds duration) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  if (seconds < 120) return std::to_string(seconds) + " s";
  const auto minutes = (seconds + 30) / 60;
  if (minutes < 120) return std::to_string(minutes) + " min";
  return std::to_string((minutes + 30) / 60) + " h";
}

}  // namespace warmroot::core
