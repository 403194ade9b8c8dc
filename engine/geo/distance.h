/* Distances on the globe, computed with the C library's functions. Angles are in degrees, lengths in metres. */
#ifndef BASALT_GEO_DISTANCE_H
#define BASALT_GEO_DISTANCE_H

#include <stddef.h>

/* What every point begins with; the caller's points are stride bytes apart. */
struct basalt_geo_point {
	double lon, lat;
	double distance; /* set here */
};

/* The length of the great circle between two positions. */
double basalt_geo_distance(double lon1, double lat1, double lon2, double lat2);

/* Sets the distance of each point from a position, NaN if it is more than radius. */
void basalt_geo_circle(double lon, double lat, double radius, struct basalt_geo_point *points, size_t n, size_t stride);

/* Sets the distance of each point from a position, NaN if it is more than half the height north or south, or more
 * than half the width east or west (measured on the great circle through the two ends of the point's parallel). */
void basalt_geo_box(double lon, double lat, double width, double height, struct basalt_geo_point *points, size_t n,
		    size_t stride);

/* How many degrees of longitude and latitude a shape covers on either side of its middle, given half its width and
 * half its height. The longitude is that on the side of the nearer pole, where meridians are closer. */
void basalt_geo_bounds(double lat, double width, double height, double *dlon, double *dlat);

#endif
